package session

import (
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/tuttidb/tutti/internal/wire"
)

// listener is what the session does to hear its backend while it waits for its client: notifications
// come unasked, as do changed settings, and a FATAL when the server stops.
type listener struct {
	backend  *backend
	channels Channels
	control  Control

	listens bool     // to some channel
	stale   bool     // to which must be asked once no transaction is open
	asked   []string // to what else it may by then, by its statements
	stop    func()   // ends the watch over the backend; nil: there is none
	over    func() bool
}

// heard ends the watch if the backend has said something.
func (e *listener) heard() bool {
	if e.stop == nil || !e.over() {
		return false
	}
	e.unwatch()
	return true
}

// watch lets the host look whether the backend says something.
func (e *listener) watch() {
	if e.stop == nil {
		e.stop, e.over = e.control.Watch(func() {
			_, _ = e.backend.in.NextHeader() // an error comes again when the frame is read
		})
	}
}

// unwatch makes the backend's reader the session's own again.
func (e *listener) unwatch() {
	if e.stop != nil {
		e.stop()
		e.stop = nil
	}
}

// channelsSQL asks for the session's channels, in a form that client_encoding does not touch.
var channelsSQL = "SELECT " + inUTF8("c") + " FROM pg_catalog.pg_listening_channels() c"

// settle tells the node to what the session listens, if that may have changed, outside of transactions. A LISTEN counts
// when its transaction has committed, and not if it was rolled back; the backend knows.
func (e *listener) settle() (warning *wire.SQLError, err error) {
	if !e.stale {
		return nil, nil
	}
	e.stale, e.asked = false, nil
	rows, err := e.backend.query(channelsSQL)
	if err != nil {
		return nil, err
	}
	channels := make([]string, len(rows))
	for i, r := range rows {
		name, err := hex.DecodeString(string(r[0]))
		if err != nil {
			return nil, fmt.Errorf("session: channel %q: %w", r[0], err)
		}
		channels[i] = string(name)
	}
	e.listens = len(channels) > 0
	return e.channels.Listen(channels), nil
}

// may refuses a LISTEN to too many channels, before anything is done.
func (e *listener) may(channels []string) *wire.SQLError {
	for _, c := range channels {
		if slices.Contains(e.asked, c) {
			continue
		}
		asked := append(slices.Clip(e.asked), c)
		if refused := e.channels.MayListen(asked); refused != nil {
			return refused
		}
		e.asked = asked
	}
	return nil
}
