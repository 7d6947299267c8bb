package probe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"

	"github.com/tuttidb/tutti/internal/metrics"
)

// Options are what the port answers from.
type Options struct {
	Metrics *metrics.Registry
	// Facts tells of a database, or of the main one if there is no name; false if there is none of that name.
	Facts func(database string) (Facts, bool)
	// Status is the table that tutti status shows; not ok if it is not known yet.
	Status func() (columns []string, rows [][]string, ok bool)
	Log    *slog.Logger
}

// Serve answers at a port until ctx ends.
func Serve(ctx context.Context, ln net.Listener, o Options) {
	s := &http.Server{
		Handler: o.handler(), ReadTimeout: readTimeout, ReadHeaderTimeout: readTimeout, WriteTimeout: writeTimeout,
		MaxHeaderBytes: headerBytesMax, ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
	}
	s.SetKeepAlivesEnabled(false) // a connection that is idle takes a place from another
	done := make(chan struct{})
	go func() {
		defer close(done)
		<-ctx.Done()
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer cancel()
		if s.Shutdown(end) != nil {
			_ = s.Close() // clients that are slow are not waited for
		}
	}()
	if err := s.Serve(newBounded(ln, connectionsMax)); err != nil && !errors.Is(err, http.ErrServerClosed) {
		o.Log.Error("the admin port ended", "error", err)
		_ = ln.Close() // it is closed already, or of no use
		<-ctx.Done()
	}
	<-done
}

// handler is all that the port answers.
func (o *Options) handler() http.Handler {
	mux := http.NewServeMux()
	others := http.NewServeMux()
	others.HandleFunc("/live", func(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, "live") })
	others.HandleFunc("/ready", o.ready)
	others.HandleFunc("/status", o.status)
	mux.Handle("/metrics", guarded(scrapesMax, scrapes(o.Metrics)))
	mux.Handle("/", guarded(requestsMax, others))
	return mux
}

func say(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	fmt.Fprintln(w, text)
}

// ready answers /ready.
func (o *Options) ready(w http.ResponseWriter, r *http.Request) {
	want, database, err := parse(r.URL.Query())
	if err != nil {
		say(w, http.StatusBadRequest, err.Error())
		return
	}
	f, ok := o.Facts(database)
	if !ok {
		say(w, http.StatusNotFound, fmt.Sprintf("there is no database %q", database))
		return
	}
	if why := f.refuses(want); why != "" {
		say(w, http.StatusServiceUnavailable, why)
		return
	}
	say(w, http.StatusOK, "ready")
}

// status answers /status.
func (o *Options) status(w http.ResponseWriter, _ *http.Request) {
	columns, rows, ok := o.Status()
	if !ok {
		say(w, http.StatusServiceUnavailable, "this member is starting")
		return
	}
	list := make([]map[string]string, 0, len(rows))
	for _, r := range rows {
		m := map[string]string{}
		for i, c := range columns {
			m[c] = r[i]
		}
		list = append(list, m)
	}
	w.Header().Set("Content-Type", "application/json")
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	_ = e.Encode(list) // a client that has left misses nothing
}
