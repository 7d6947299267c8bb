package wire

// The SQLSTATEs Tutti itself raises, with PostgreSQL's names and meanings
// (PostgreSQL documentation, appendix A). TT001 is our own class.
const (
	CodeSuccess                  = "00000" // of a NOTICE
	CodeWarning                  = "01000" // severity WARNING: done, but not all that was expected
	CodeProtocolViolation        = "08P01" // the peer broke the protocol
	CodeConnectionFailure        = "08006" // an established connection broke
	CodeFeatureNotSupported      = "0A000" // cannot be replicated, or is not supported, safely
	CodeCharacterNotInRepertoire = "22021" // text that is not valid in the encoding
	CodeSequenceSpent            = "2200H" // nextval has reached the sequence's bound
	CodeActiveTransaction        = "25001" // not allowed inside a transaction block
	CodeReadOnlyTransaction      = "25006" // updates are refused here now
	CodeNoActiveTransaction      = "25P01" // needs a transaction block
	CodeInFailedTransaction      = "25P02" // commands ignored until the end of the block
	CodeInvalidStatementName     = "26000" // prepared statement does not exist
	CodeInvalidAuthorization     = "28000" // role may not connect
	CodeInvalidPassword          = "28P01" // wrong password
	CodeDependentObjects         = "2BP01" // something depends on what is to be dropped
	CodeInvalidCursorName        = "34000" // portal does not exist
	CodeInvalidCatalogName       = "3D000" // database does not exist
	CodeSerializationFailure     = "40001" // certainly not committed; retry the transaction
	CodeStatementUnknown         = "40003" // outcome unknown; DETAIL names the txid
	CodeDeadlockDetected         = "40P01" // certainly not committed; retry the transaction
	CodeInsufficientPrivilege    = "42501"
	CodeSyntaxError              = "42601"
	CodeUndefinedTable           = "42P01"
	CodeUndefinedFunction        = "42883"
	CodeUniqueViolation          = "23505"
	CodeDuplicatePreparedStmt    = "42P05"
	CodeInvalidParameterValue    = "22023"
	CodeOutOfMemory              = "53200" // a bounded queue or buffer is full
	CodeTooManyConnections       = "53300"
	CodeUndefinedObject          = "42704"
	CodeDuplicateObject          = "42710"
	CodeConfigurationLimit       = "53400"
	CodeProgramLimit             = "54000" // writeset, batch or message over its limit
	CodeObjectNotInState         = "55000"
	CodeLockNotAvailable         = "55P03"
	CodeQueryCanceled            = "57014"
	CodeAdminShutdown            = "57P01"
	CodeCrashShutdown            = "57P02"
	CodeCannotConnectNow         = "57P03" // the member or its database is not ready
	CodeDatabaseDropped          = "57P04"
	CodeDuplicateDatabase        = "42P04"
	CodeObjectInUse              = "55006"
	CodeInternalError            = "XX000"
	CodeDataCorrupted            = "XX001"
	CodeTuttiDefined             = "TT002" // Tutti's own, of an INFO: a definition was noted
	CodeTuttiLock                = "TT003" // Tutti's own, of an INFO: an advisory lock was asked for
	CodeTuttiWider               = "TT004" // Tutti's own: a definition has changed more than it was said to
	CodeTuttiOutdated            = "TT005" // Tutti's own: what a definition changes has to be looked up again
	CodeTuttiInside              = "TT006" // Tutti's own, of an INFO: a procedure's transaction is about to commit
	CodeTuttiHeir                = "TT007" // Tutti's own, of an INFO: a temporary table inherits from a permanent one
	CodeTuttiEntered             = "TT008" // Tutti's own, of an INFO: a procedure's transaction has begun to write
	CodeTuttiReplicationRefused  = "TT001" // Tutti's own: refused by replication policy
)
