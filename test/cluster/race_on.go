//go:build race

package cluster

const raceEnabled = true // the nodes are built as the tests are
