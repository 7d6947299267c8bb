//go:build !linux

package pgtest

// memoryDir is only known for Linux.
func memoryDir() string { return "" }
