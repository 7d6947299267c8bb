package standing

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/tuttidb/tutti/internal/bootstrap"
	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/fault"
	"github.com/tuttidb/tutti/internal/process"
)

const (
	// askedAgain begins what a member asks for that has lost its log; the number of its question follows, or whoIsThere
	// until a majority answers that.
	askedAgain = "log again "
	whoIsThere = 0
	// A round of questions has askMost, and is followed by another after askRest.
	askMost = 5 * time.Second
	askRest = 300 * time.Millisecond
	// answerBytesMax bounds an answer.
	answerBytesMax = 1 << 20
)

// AskAgain has a member that has lost its log ask the others, until they say with what it may begin another. Waits
// takes for what it waits. It returns an error when ctx ends.
func AskAgain(ctx context.Context, c *config.Config, log *slog.Logger,
	call func(ctx context.Context, member uint32, address, asked string) (net.Conn, error), waits func(string)) (
	*bootstrap.Again, error) {
	question, said, since := uint64(whoIsThere), "", time.Time{}
	for {
		again, answers, newer, why := askAll(ctx, c, askedAgain+fmt.Sprint(question), call)
		if again != nil {
			return again, nil
		}
		if newer {
			continue
		}
		if question == whoIsThere && answers >= bootstrap.Needed(len(c.Everybody())) {
			question = max(rand.Uint64(), whoIsThere+1)
			continue
		}
		why = "this member has lost its log, and waits for the others to say with what it may begin another: " + why
		waits(why)
		if why != said || time.Since(since) > 10*time.Second {
			log.Info("waits to begin its log again", "why", why)
			said, since = why, time.Now()
		}
		if !process.Sleep(ctx, askRest) {
			return nil, context.Cause(ctx)
		}
	}
}

// askAll asks all other members at once, and counts those that answer. Newer: they have told of a newer list of
// members, all of whom are to be asked.
func askAll(ctx context.Context, c *config.Config, asked string,
	call func(ctx context.Context, member uint32, address, asked string) (net.Conn, error)) (
	again *bootstrap.Again, answered int, newer bool, why string) {
	ctx, cancel := context.WithTimeout(ctx, askMost)
	defer cancel()
	var all sync.WaitGroup
	list := c.Everybody()
	answers, errs := make([]*bootstrap.Answer, len(list)), make([]error, len(list))
	for i, m := range list {
		if m.Member != c.Member {
			all.Go(func() {
				answers[i], errs[i] = ask(ctx, m, func() (net.Conn, error) {
					return call(ctx, m.Member, m.Address, asked)
				})
			})
		}
	}
	all.Wait()
	var got []*bootstrap.Answer
	var failed []string
	for i := range answers {
		if answers[i] != nil {
			got = append(got, answers[i])
			newer = learn(c, answers[i].Roster) || newer
		}
		if errs[i] != nil {
			failed = append(failed, errs[i].Error())
		}
	}
	if newer {
		return nil, len(got), true, "the list of members has changed"
	}
	again, why = bootstrap.BeginAgain(len(list), got, c.Name)
	if len(failed) > 0 {
		why += "; " + strings.Join(failed, "; ")
	}
	return again, len(got), false, why
}

// ask asks one member.
func ask(ctx context.Context, m config.Member, call func() (net.Conn, error)) (*bootstrap.Answer, error) {
	data, err := hear(ctx, call)
	if err != nil {
		return nil, err
	}
	a, err := bootstrap.DecodeAnswer(data)
	if err == nil && a.Member != m.Member {
		err = fmt.Errorf("member %d says that it is member %d", m.Member, a.Member)
	}
	if err != nil {
		return nil, err
	}
	return a, nil
}

// hear makes a call and reads what is answered.
func hear(ctx context.Context, call func() (net.Conn, error)) ([]byte, error) {
	conn, err := call()
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	return io.ReadAll(io.LimitReader(conn, answerBytesMax))
}

// Answers reports whether a call is a question of a member that has lost its log, and gives what answers it. Terms says
// for each database the term in which this member readmits another one, zero if it does not (ordering.Order.Readmit);
// it is nil if that member is here. Who only asks who is there loses nothing by it: the log may only not be mounted,
// and be needed yet.
func (s *Standing) Answers(from uint32, asked string, terms func(member uint32, question uint64) map[uint64]uint64) (
	func(context.Context, net.Conn), bool) {
	number, is := strings.CutPrefix(asked, askedAgain)
	if !is {
		return nil, false
	}
	return func(_ context.Context, conn net.Conn) {
		defer conn.Close()
		var question uint64
		if _, err := fmt.Sscan(number, &question); err != nil {
			return
		}
		a := &bootstrap.Answer{Member: s.config.Member, Roster: rosterOf(s.config)}
		if question != whoIsThere {
			var err error
			if a, err = s.supersede(from); err != nil {
				s.fail(err)
				return
			}
			if a.Terms = terms(from, question); a.Terms == nil {
				return
			}
		}
		_, _ = conn.Write(a.Append(nil)) // if that fails, it asks again
	}, true
}

// supersede refuses the logs that a member has had so far, before this member readmits it, and gives the answer but for
// that.
func (s *Standing) supersede(member uint32) (*bootstrap.Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.note(func(n bootstrap.Notes) (bootstrap.Notes, bool) { return n.Supersede(member) }); err != nil {
		return nil, err
	}
	return &bootstrap.Answer{Member: s.config.Member, Roster: rosterOf(s.config), Known: s.notes.Members[member],
		Copied: s.notes.Copies[member], Levels: s.notes.Levels}, nil
}

// CreateLogAgain makes the main database's log in the place of one that was lost.
func CreateLogAgain(c *config.Config, faults *fault.Faults, again *bootstrap.Again) error {
	b := beginning{Settings: bootstrap.Fixed(equalSettings(c)), Again: *again}
	return createMainLog(LogDir(c, MainGroup), c, faults, &b)
}
