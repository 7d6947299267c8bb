package pgtest

import "syscall"

// memoryMin is how many bytes must be free in the memory's file system for a server to be there.
const memoryMin = 4 << 30

// MemoryDir is a directory for servers that need not be durable, or empty if there is none with enough room. A server's
// files are made and deleted by the hundred with each database; ext4 without a journal looks at all inodes that were
// freed in the last minutes for each new file, which took a fifth of the time of such tests, and some of that of those
// that ran beside them.
func MemoryDir() string {
	const dir = "/dev/shm"
	const magic, writable = 0x01021994, 2 // of tmpfs; of access
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil || fs.Type != magic || fs.Bavail*uint64(fs.Bsize) < memoryMin ||
		syscall.Access(dir, writable) != nil {
		return ""
	}
	return dir
}
