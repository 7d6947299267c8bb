package session

import (
	"github.com/tuttidb/tutti/internal/wire"
)

// copyIn moves a COPY FROM STDIN: the client's data to the backend on this goroutine, the
// backend's answers to the client beside it, up to the end of the COPY. Results are no longer
// held back afterwards, because the client had to see the CopyInResponse; its
// CommandComplete still is. It reports how many messages of the client were passed on.
func (y *relaying) copyIn(r *reply) (int, error) {
	if y.results.Holding() {
		y.results.Spill()
	}
	if err := y.out.Flush(); err != nil {
		return 0, err
	}
	var back error
	before := r.done
	wait, over := y.host.Go(func() {
		for back == nil && r.failed == nil && !r.ended && r.done == before {
			back = y.passOne(r)
		}
	})
	sent, front := y.copyData(over)
	if front != nil {
		// The client is gone: fail the COPY so that the backend answers and wait can end. If
		// the backend is gone too, wait ends by that.
		y.backend.out.Append(wire.AppendCopyFail(nil, "the client's connection broke"))
		_ = y.backend.out.Flush()
	}
	wait()
	if front != nil {
		return sent, y.badFrame(front)
	}
	return sent, back
}

// copyData forwards the client's frames up to the end of its data, or until over reports
// that the backend has failed the COPY.
func (y *relaying) copyData(over func() bool) (sent int, err error) {
	for {
		f, err := y.in.Next()
		if isTimeout(err) {
			doom := y.host.Enter(PhaseRunning)
			if over() {
				return sent, nil
			}
			if doom != nil { // a cancel does not reach a backend that waits for data
				y.backend.out.Append(wire.AppendCopyFail(nil, doom.Message))
				return sent, y.backend.flush()
			}
			continue
		}
		if err != nil {
			return sent, err
		}
		if over() {
			// What is left of the data is dropped by step. The frame stays valid: nothing is
			// read before next hands it out again.
			y.unread = f
			return sent, nil
		}
		switch f.Type {
		case wire.TypeFlush, wire.TypeSync:
			sent++
			continue
		case wire.TypeTerminate:
			return sent, errTerminate
		}
		sent++
		y.backend.out.Append(f.Raw) // an unexpected one makes PostgreSQL end the connection
		last := f.Type != wire.TypeCopyData
		if last { // the one after Execute went into the COPY
			y.backend.out.Append(wire.AppendFlush(y.backend.out.AvailableBuffer()))
		}
		if last || y.backend.out.Full() || !y.in.Buffered() {
			if err := y.backend.flush(); err != nil {
				return sent, err
			}
		}
		if last {
			return sent, nil
		}
	}
}
