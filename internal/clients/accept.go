package clients

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/tuttidb/tutti/internal/process"
)

// strangersMax bounds clients between accept and admission.
const strangersMax = 256

var errStrangers = fmt.Errorf("%d others are not logged in yet", strangersMax)

// Accept takes clients until ctx has ended and the listener is closed, and waits for them. serve has admitted called
// once a client is no stranger any more, or gone.
func (l *Log) Accept(ctx context.Context, ln net.Listener, serve func(conn net.Conn, admitted func())) {
	var wg sync.WaitGroup
	defer wg.Wait()
	strangers := make(chan struct{}, strangersMax)
	for {
		conn, err := ln.Accept()
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			l.log.Warn("accept failed", "error", err)
			if !process.Sleep(ctx, 50*time.Millisecond) {
				return
			}
			continue
		}
		select {
		case strangers <- struct{}{}:
		default:
			l.Refuse(New(conn), errStrangers)
			_ = conn.Close() // more strangers at once than anybody needs
			continue
		}
		wg.Go(func() { serve(conn, func() { <-strangers }) })
	}
}
