package capture

import (
	"regexp"
	"strconv"
	"strings"
)

// The values of a sequence are cut into chunks. Chunk 0 begins with START and belongs to the member
// where the sequence was made, its home; the next ones belong to the members in turn. What belongs to whom is fixed
// when the sequence is made and depends on the value alone, so no definition and no setval can make two members
// give equal values. The bounds in pg_sequence are those of the chunk that a member gives values of: PostgreSQL
// itself refuses more. The declared ones are in tutti.sequences, and are put back while a definition runs.
//
//   - A definition first finds the declared bounds (tutti.open_sequences, ddl_command_start) and is followed by
//     tutti.settle_sequences (ddl_command_end), also inside functions.
//   - setval is a function of ours. Within the chunk it is PostgreSQL's. Forward, the position moves first,
//     and the bounds at COMMIT: until then, and after a ROLLBACK, it lies beyond them. Backward it would run
//     through what belongs to others after a ROLLBACK, so it becomes part of the transaction.
//   - At the end of a chunk tutti.advance_sequence goes on to the next; see SpentState.
//   - pg_sequence's rows are updated directly: that takes no lock on the sequence, and nextval reads them anew.

// SpentState is PostgreSQL's SQLSTATE of a nextval that found no more values between the bounds.
const SpentState = "2200H"

var spent = regexp.MustCompile(`(?s)^[^"„“«]*["„“«][ \x{a0}]?(.*?)[ \x{a0}]?["“”»] ?\((-?\d+)\)$`)

// Spent reads from PostgreSQL's message, in whatever language, which sequence has no more values, without its schema,
// and the bound it has reached.
func Spent(message string) (sequence string, bound int64, ok bool) {
	m := spent.FindStringSubmatch(message)
	if m == nil {
		return "", 0, false
	}
	bound, err := strconv.ParseInt(m[2], 10, 64)
	return m[1], bound, err == nil
}

// AdvanceSQL, with its parameters, goes on to the next chunk of a sequence that has reached a bound. It must run as a
// superuser, in a transaction of its own. Advanced takes the only value of the answer: whether the nextval may be
// repeated, else the declared bound if other members' values lie before it.
func AdvanceSQL(sequence string, bound int64) (sql string, parameters [][]byte) {
	return "SELECT tutti.advance_sequence($1, $2)", [][]byte{[]byte(sequence), []byte(strconv.FormatInt(bound, 10))}
}

// Advanced takes the answer to AdvanceSQL.
func Advanced(answer []byte) (moved bool, bound string) {
	bound, _ = strings.CutPrefix(string(answer), "spent ")
	if bound == "moved" {
		return true, ""
	}
	return false, bound
}

const (
	// sequenceChunk is how many values a chunk has, unless the range is small.
	sequenceChunk = 1 << 24
	// A range with fewer values than this belongs to its home by half.
	sequenceSmall = 1 << 30
	// sequenceShares is how many chunks each member gets of a small range. One with less than
	// sequenceShares² values for each member belongs to its home.
	sequenceShares = 4
)

func sequenceSchema() string {
	return install("sequences.sql", words{
		"small_share": sequenceShares * sequenceShares,
		"small":       sequenceSmall,
		"chunk":       sequenceChunk,
		"shares":      sequenceShares,
	}) + install("sequence_functions.sql", words{
		"ddl_setting":  DDLSetting,
		"ddl_own":      DDLOwn,
		"events_query": EventsQuery,
		"own_settings": ownSettings,
	}) + install("setval.sql", words{"own_settings": ownSettings}) + install("sequence_views.sql", nil)
}

const ownSettings = ` LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET ` +
	`client_min_messages = warning `

	// sql/setval.sql: PostgreSQL's own, known by OIDs below those of users, have another name, and so has
	// pg_sequence_parameters, which tells the bounds. tutti.place only believes
	// the role it is told by the function that nobody else can name so.

	// sql/sequence_views.sql are PostgreSQL's, of what was declared.
