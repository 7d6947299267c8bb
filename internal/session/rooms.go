package session

import (
	"github.com/tuttidb/tutti/internal/session/proto"
)

// The rooms of a session, mostly from below to above. Each keeps its own state; what ends with a transaction, or with
// the client's block, is reset by these.

// within are the rooms that only other rooms ask.
type within struct {
	sight      sight
	direct     direct
	schema     schema
	collecting collecting
	tableLocks tableLocks
	turns      rowTurns
	procedures procedures
	planner    planner
	carrying   carrying
	alone      alone
	retry      retrying
	staying    staying

	definitions definitions
}

// readers makes what reads: texts, names and what is known of statements; none of it ends a transaction.
func readers(s *Session, w *within, o Options) {
	s.backend = backend{
		in: o.Server, out: o.ServerOut, secret: o.Collector.Secret(), prepares: o.Collector.AppendPrepare,
		hears: s.relaying.hears, began: s.txn.Began,
		limits: limits{
			most: o.BytesMax, room: o.Room, large: o.Host.BeginLarge, exceeded: w.collecting.tooMuch,
		},
	}
	s.texts = texts{facts: o.Collector.Facts, reserved: o.Collector.Marks, cache: newCache(o.CacheMax)}
	s.levels = levels{backend: &s.backend, txn: &s.txn}
	s.advisory = advisory{backend: &s.backend, host: o.Host.Advisory, txn: &s.txn}
	s.listener = listener{backend: &s.backend, channels: o.Host.Channels, control: o.Host.Control}
	s.locks = locks{
		backend: &s.backend, locking: o.Collector.Locking, intents: o.Host.Intents, view: o.Collector.View,
		off: func() bool { return w.schema.noted || s.texts.escape },
	}
	s.reads = reads{
		backend: &s.backend, pinning: o.Collector.Pinning, facts: o.Collector.Facts,
		serial: s.levels.serializable, alike: s.texts.plainTexts,
	}
	s.forms = forms{
		backend: &s.backend, rewriting: o.Collector.Rewriting, catalogs: o.Collector.Facts, plans: o.Host.Plans,
		find: o.Direct, secret: o.Collector.Secret(), txn: &s.txn, texts: &s.texts, sight: &w.sight,
	}
	w.direct = direct{
		backend: &s.backend, forms: &s.forms, results: &s.results, large: o.Host.BeginLarge, txn: &s.txn,
		bytesMax: min(o.BytesMax, RowByRowMax),
	}
	s.named = named{
		texts: &s.texts, locks: &s.locks, statements: map[string]*prepared{}, portals: map[string]*prepared{},
	}
	s.batch = batch{
		reserved: o.Collector.Marks, texts: &s.texts, reads: &s.reads, forms: &s.forms, later: &s.buffer.later,
	}
}

// transactions makes what opens and ends transactions, and what passes on what the backend says.
func transactions(s *Session, w *within, o Options) {
	w.collecting = collecting{
		backend: &s.backend, captures: o.Collector.Captures, locking: o.Collector.Locking,
		bytesMax: min(o.BytesMax, RowByRowMax),
		host:     collectingHost{o.Host.Control, o.Host.Order, o.Host.Snapshots, o.Host.Main},
		levels:   &s.levels, direct: &w.direct, schema: &w.schema, locks: &s.locks, reads: &s.reads,
	}
	s.tx = transaction{
		backend: &s.backend, steps: transactionSteps{o.Collector.Captures, o.Collector.Steps},
		host: transactionHost{o.Host.Control, o.Host.Order, o.Host.Snapshots, o.Host.Deferred, o.Host.Deferrable},
		txn:  &s.txn, levels: &s.levels, collecting: &w.collecting, forms: &s.forms, unnamed: &s.named.unnamed,
		direct: &w.direct, schema: &w.schema,
		locks: &s.locks, reads: &s.reads, later: &s.buffer.later, sight: &w.sight,
	}
	s.block = block{
		out: s.out, backend: &s.backend, txn: &s.txn, tx: &s.tx, levels: &s.levels, habits: &s.blocks.habits,
		direct: &w.direct, schema: &w.schema, locks: &s.locks, retry: &w.retry, later: &s.buffer.later, sight: &w.sight,
		named: &s.named, turns: &w.turns,
	}
	w.turns = rowTurns{
		host: rowTurnsHost{o.Host.Control, o.Host.Intents}, txn: &s.txn, levels: &s.levels, find: o.Direct,
	}
	s.relaying = relaying{
		backend: &s.backend, in: s.in, out: s.out, results: &s.results,
		host: relayingHost{o.Host.Control, o.Host.Sequences}, facts: o.Collector.Facts,
		txn: &s.txn, tx: &s.tx, texts: &s.texts, sight: &w.sight, forms: &s.forms, unnamed: &s.named.unnamed,
		direct: &w.direct, schema: &w.schema, locks: &s.locks, advisory: &s.advisory, later: &s.buffer.later,
		turns: &w.turns, inside: &w.procedures.inside, commitHere: w.procedures.commitInside,
	}
	w.tableLocks = tableLocks{
		backend: &s.backend, host: tableLocksHost{o.Host.Control, o.Host.Intents}, txn: &s.txn, tx: &s.tx,
		block: &s.block,
	}
	w.procedures = procedures{
		backend: &s.backend, conversing: o.Collector.Conversing, results: &s.results, triesMax: o.RetriesMax,
		host: proceduresHost{o.Host.Control, o.Host.Order, o.Host.Intents, o.Host.Procedures},
		txn:  &s.txn, tx: &s.tx, block: &s.block, levels: &s.levels, collecting: &w.collecting,
		relaying: &s.relaying, schema: &w.schema, advisory: &s.advisory,
	}
}

// writers makes what runs requests: put off, alone, in blocks, or again.
func writers(s *Session, w *within, o Options) {
	s.buffer = buffer{
		backend: &s.backend, results: &s.results, fail: s.block.fail,
		host: bufferHost{o.Host.Control, o.Host.Order, o.Host.Intents, o.Host.Rows, o.Host.Deferred},
		txn:  &s.txn, tx: &s.tx, levels: &s.levels, texts: &s.texts, sight: &w.sight, forms: &s.forms,
		direct: &w.direct, retry: &w.retry, rewriting: o.Collector.Rewriting, facts: o.Collector.Facts,
		find: o.ReadThrough,
	}
	w.planner = planner{
		backend: &s.backend, txn: &s.txn, texts: &s.texts, levels: &s.levels, advisory: &s.advisory,
		forms: &s.forms, direct: &w.direct, schema: &w.schema, locks: &s.locks, retry: &w.retry, later: &s.buffer.later,
		buffer: &s.buffer, sight: &w.sight,
	}
	w.carrying = carrying{
		backend: &s.backend, host: carryingHost{o.Host.Control, o.Host.Intents},
		steps: carryingSteps{o.Collector.Steps, o.Collector.Extents}, facts: o.Collector.Facts,
		txn: &s.txn, tx: &s.tx, texts: &s.texts, block: &s.block, planner: &w.planner, relaying: &s.relaying,
		collecting: &w.collecting, buffer: &s.buffer, later: &s.buffer.later, unnamed: &s.named.unnamed,
		direct: &w.direct,
		schema: &w.schema, locks: &s.locks, tableLocks: &w.tableLocks, reads: &s.reads,
		turns: &w.turns,
	}
	w.alone = alone{
		backend: &s.backend, host: aloneHost{o.Host.Control, o.Host.Order, o.Host.Intents, o.Host.Deferred},
		facts: o.Collector.Facts, planned: o.Planned, triesMax: o.RetriesMax, txn: &s.txn, tx: &s.tx,
		block: &s.block, levels: &s.levels, planner: &w.planner, carrying: &w.carrying, collecting: &w.collecting,
		relaying: &s.relaying, buffer: &s.buffer, forms: &s.forms, direct: &w.direct, sight: &w.sight,
		advisory: &s.advisory, results: &s.results,
	}
	s.plain = plain{
		backend: &s.backend, host: plainHost{o.Host.Control, o.Host.Intents}, planned: o.Planned, txn: &s.txn,
		tx: &s.tx, alone: &w.alone,
		relaying: &s.relaying, texts: &s.texts, named: &s.named, advisory: &s.advisory, results: &s.results, out: s.out,
	}
	s.blocks = blocks{
		backend: &s.backend, in: s.in, host: blocksHost{o.Host.Control, o.Host.Order},
		mayDefer: o.Host.Deferrable, planned: o.Planned, triesMax: o.RetriesMax, txn: &s.txn, tx: &s.tx,
		block: &s.block, planner: &w.planner, carrying: &w.carrying, plain: &s.plain, relaying: &s.relaying,
		retry: &w.retry, staying: &w.staying, buffer: &s.buffer, later: &s.buffer.later, levels: &s.levels,
		forms: &s.forms, direct: &w.direct, locks: &s.locks, listener: &s.listener, results: &s.results,
	}
	s.txn.Strict = o.Strict
	s.results = proto.NewResults(o.ClientOut, o.HoldBytesMax,
		func(raw []byte) bool { return s.txn.Active() && w.retry.tell(raw) }, o.Server.Buffered)
	w.retry = retrying{
		control: o.Host.Control, out: s.out, carrying: &w.carrying, triesMax: o.RetriesMax, tx: &s.tx,
		later:   &s.buffer.later,
		unnamed: &s.named.unnamed,
		backend: &s.backend, txn: &s.txn, levels: &s.levels, schema: &w.schema, advisory: &s.advisory,
		turns: &w.turns,
	}
	w.retry.end()
	w.staying = staying{
		backend: &s.backend, host: stayingHost{o.Host.Control, o.Host.Order, o.Host.Intents}, txn: &s.txn, tx: &s.tx,
		retry: &w.retry, levels: &s.levels, tableLocks: &w.tableLocks,
	}
}

// statements makes what carries out statements, by whom they are for.
func statements(s *Session, w *within, o Options) {
	s.executing = executing{
		results: &s.results, block: &s.block, txn: &s.txn, texts: &s.texts, levels: &s.levels, listener: &s.listener,
		sight: &w.sight, forms: &s.forms, planner: &w.planner, plain: &s.plain, alone: &w.alone,
		procedures: &w.procedures, blocks: &s.blocks,
	}
	w.definitions = definitions{
		backend: &s.backend, host: definitionsHost{o.Host.Control, o.Host.Order, o.Host.Intents, o.Host.Definitions},
		extents: o.Collector.Extents, marks: o.Collector.Marks, txn: &s.txn, tx: &s.tx,
		block: &s.block, schema: &w.schema, tableLocks: &w.tableLocks, carrying: &w.carrying, relaying: &s.relaying,
		unnamed: &s.named.unnamed, executing: &s.executing, results: &s.results,
	}
	s.controls = controls{
		backend: &s.backend, out: s.out, status: o.Host.Status, txn: &s.txn, tx: &s.tx, block: &s.block,
		levels: &s.levels, sight: &w.sight, listener: &s.listener, named: &s.named, retry: &w.retry,
		staying: &w.staying, later: &s.buffer.later, blocks: &s.blocks, buffer: &s.buffer, executing: &s.executing,
		definitions: &w.definitions,
	}
}
