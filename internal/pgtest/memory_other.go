//go:build !linux

package pgtest

// MemoryDir is only known for Linux.
func MemoryDir() string { return "" }
