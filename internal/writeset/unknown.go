package writeset

import "errors"

// ErrUnknown is wrapped by errors about what is in the log and this build does not understand. To leave it out, or to
// refuse it, would be to do something else than the members that understand it: who meets it stops.
var ErrUnknown = errors.New("only a newer release of Tutti understands this: install that here")
