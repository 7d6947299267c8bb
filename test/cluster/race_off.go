//go:build !race

package cluster

const raceEnabled = false // the nodes are built as the tests are
