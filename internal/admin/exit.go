package admin

import "errors"

// Exit codes of tutti status, by the habit of Nagios's plugins.
const (
	exitWarning  = 1 // the cluster works, and something needs somebody
	exitCritical = 2 // it does not take writes, copies differ, or nobody answers
	exitUnknown  = 3 // it could not be asked
)

// Exit codes of tutti check.
const (
	exitDiffers    = 1 // copies differ
	exitIncomplete = 2 // those that were compared are equal, and some were not
	exitUnchecked  = 3 // nothing could be compared
)

// exitStops is that of tutti what-if: the rest would not go on. It ends with exitUnknown, too.
const exitStops = 1

// exitRefused is that of tutti member: a node answers that it cannot be done. It ends with exitUnknown, too.
const exitRefused = 1

// exitUnfinished is that of tutti member replace: it is to be run again.
const exitUnfinished = 2

// exitNotFinished is that of tutti upgrade: an upgrade is not finished. It ends with exitRefused and exitUnknown, too.
const exitNotFinished = 1

// ExitError is an error with an exit code of its own.
type ExitError struct {
	Code int
	Err  error
}

func (e *ExitError) Error() string { return e.Err.Error() }

// Unwrap gives the reason.
func (e *ExitError) Unwrap() error { return e.Err }

// ExitCode is the process's.
func (e *ExitError) ExitCode() int { return e.Code }

// exit gives an error this code, unless it has one.
func exit(code int, err error) error {
	var e *ExitError
	if err == nil || errors.As(err, &e) {
		return err
	}
	return &ExitError{code, err}
}
