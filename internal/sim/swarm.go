package sim

import "fmt"

type work uint8

const (
	workTransfer work = iota
	workTotal
	workList
	workUnique
	workFamily
	workStatement
	works
)

// swarm is what one seed's run consists of; times in microseconds.
type swarm struct {
	members        int
	clients        int
	skew           int
	aheadPerMille  int   // transactions collected before the client says COMMIT
	patience       int64 // of a session for the log's decision, in the phase with faults; zero: for ever
	repeatPerMille int
	strictPerMille int // of those
	lockPerMille   int
	addPerMille    int // of scripts that write to counters
	blindPerMille  int // of transactions
	shunPerMille   int // of those that lose to these, and ask for a while without
	roamPerMille   int
	weights        [works]int

	tick                                                           int64
	delayMin, delayMax                                             int64
	lossPerMille, duplicatePerMille, slowPerMille, reorderPerMille int
	syncMin, syncMax                                               int64
	commitMax, statementMax, thinkMax                              int64
	blockWait                                                      int64
	flushEvery                                                     int64 // database log
	// local commits whose backend is terminated meanwhile
	terminatePerMille int

	slowMember                                    uint32 // zero: nobody; by these factors
	slowNode, slowDisk, slowDatabase, slowNetwork int64
	// down from early on to the end of the phase with faults; zero: nobody
	deadMember                                    uint32
	partitionEvery, crashEvery, killEvery         int64 // zero: never
	outageEvery, pauseEvery, pauseMax, clockEvery int64 // zero: never; outage: of all members at once
	syncFailPerMille, stepCrashPerMille           int
	fullEvery                                     int64   // disk without space; zero: never
	pauseLossPerMille                             int     // frames that do not wait for a paused member
	clockRate                                     []int64 // per member: a tick's length in thousandths of the right one
	safety                                        int64   // length of the phase with faults

	keysMax, groupItems, batchItems, batchBytes, batchesInflight, resubmitTicks, pendingMax int
	// zero: the default, never reached
	queueBytes int

	checkpointEvery int64  // zero: never
	keepEntries     uint64 // of the log, for others
	notifyPerMille  int    // local commits that notify
	lockers         int    // sessions per member that take advisory locks
	lockLease       int64

	abdicatePerMille int // leaders that hand over to anybody, each time they ask

	scarce                                          bool     // proposals gather
	stuck                                           []uint32 // sessions, by their slots, that members take for stuck
	gatherShare, gatherPart, keptSilence, keptAfter int
}

func newSwarm(r *random, o *Options) swarm {
	pick := func(vs ...int64) int64 { return vs[r.intn(len(vs))] }
	s := swarm{
		members: int(pick(3, 3, 4, 5, 5)), clients: int(pick(3, 6, 9, 12)), skew: r.intn(4),
		repeatPerMille: int(pick(0, 300, 500, 1000)), lockPerMille: int(pick(0, 0, 100)),
		roamPerMille: int(pick(0, 300)),
		tick:         10_000, delayMin: pick(20, 200), delayMax: pick(200, 1000, 5000),
		lossPerMille: int(pick(0, 0, 10, 100)), duplicatePerMille: int(pick(0, 20, 200)),
		slowPerMille: int(pick(0, 5, 50)), reorderPerMille: int(pick(0, 0, 100, 1000)),
		syncMin: 50, syncMax: pick(100, 1000, 10_000),
		commitMax: pick(20, 300, 3000), statementMax: pick(50, 500, 3000), thinkMax: pick(500, 5000, 20_000),
		blockWait: pick(500, 3000), flushEvery: pick(1000, 20_000, 200_000),
		partitionEvery: pick(0, 300_000, 1_000_000), crashEvery: pick(0, 200_000, 600_000),
		killEvery: pick(0, 5000, 50_000),
		safety:    o.SafetyMicros,
		keysMax:   int(pick(0, 0, 0, 60)), groupItems: int(pick(1, 3, 512)), batchItems: int(pick(1, 4, 512)),
		batchBytes:      int(pick(0, 0, 150)),
		batchesInflight: int(pick(1, 4)), resubmitTicks: int(pick(5, 20)), pendingMax: int(pick(2, 1000, 1000)),
	}
	if o.Members != 0 {
		s.members = o.Members
	}
	s.slowMember, s.terminatePerMille = uint32(pick(0, 1, 2, 3)), int(pick(0, 0, 50))
	s.slowNode, s.slowDisk, s.slowDatabase, s.slowNetwork = pick(1, 10, 100), pick(1, 10), pick(1, 10), pick(1, 10)
	s.patience = pick(0, 0, 20_000, 300_000)
	s.aheadPerMille = int(pick(0, 300))
	s.deadMember = uint32(pick(0, 0, 0, 0, 1, 2, 3))
	s.outageEvery, s.clockEvery = pick(0, 0, 1_000_000), pick(0, 0, 200_000)
	s.pauseEvery, s.pauseMax, s.pauseLossPerMille = pick(0, 0, 100_000, 500_000), pick(300_000, 4_000_000),
		int(pick(0, 500, 1000))
	s.syncFailPerMille, s.stepCrashPerMille, s.fullEvery = int(pick(0, 0, 2, 10)), int(pick(0, 0, 1, 5)),
		pick(0, 0, 300_000)
	for range 9 {
		s.clockRate = append(s.clockRate, pick(1000, 1000, 1000, 500, 2000))
	}
	s.clockRate = s.clockRate[:s.members]
	if s.batchBytes > 0 {
		s.syncMax = min(s.syncMax, 1000) // a list takes many parts
	}
	more := r.fork()
	s.queueBytes = int([]int64{0, 1, 3000, 20_000}[more.intn(4)])
	s.checkpointEvery = []int64{0, 5000, 50_000, 500_000}[more.intn(4)]
	s.keepEntries = []uint64{0, 5, 100}[more.intn(3)]
	s.notifyPerMille = []int{0, 0, 100, 1000}[more.intn(4)]
	s.lockers = []int{0, 0, 1, 3}[more.intn(4)]
	s.lockLease = []int64{200_000, 1_000_000}[more.intn(2)]
	s.strictPerMille = []int{0, 0, 300, 1000}[more.intn(4)]
	s.abdicatePerMille = []int{0, 0, 20, 300}[more.intn(4)]
	s.scarce = more.intn(3) > 0
	s.gatherShare, s.gatherPart = []int{1, 2, 3}[more.intn(3)], []int{1, 1, 10}[more.intn(3)]
	s.keptSilence, s.keptAfter = []int{1, 5, 256}[more.intn(3)], []int{1, 3}[more.intn(2)]
	s.stuck = [][]uint32{nil, {1}, {1, 2, 3}}[more.intn(3)]
	s.addPerMille = []int{0, 0, 300, 1000}[more.intn(4)]
	s.blindPerMille, s.shunPerMille = []int{0, 0, 100, 500}[more.intn(4)], []int{0, 200}[more.intn(2)]
	for i := range s.weights {
		s.weights[i] = int(pick(0, 1, 4))
	}
	s.weights[workList]++
	if s.weights[workStatement] > 0 {
		s.weights[workStatement] = r.intn(2)
	}
	return s
}

// pick draws a kind of work by weight.
func (s *swarm) pick(r *random) work {
	sum := 0
	for _, n := range s.weights {
		sum += n
	}
	k := r.intn(sum)
	for i, n := range s.weights {
		if k < n {
			return work(i)
		}
		k -= n
	}
	panic("sim: weights do not add up")
}

func (s swarm) String() string { type plain swarm; return fmt.Sprintf("%+v", plain(s)) }
