// Package untar unpacks a tar stream that is not trusted into one directory.
//
// Neighbours: embedded unpacks downloaded PostgreSQL builds with it, instance unpacks base
// backups. It imports nothing of ours.
//
// Invariants:
//
//	U1  Nothing outside the directory is created, opened, changed or linked to, whatever
//	    names and symbolic links the archive holds.
//	U2  An existing file is never overwritten: an entry that occurs twice is an error.
//	U3  Bytes written and entries made never exceed the limits given.
//	U4  Only directories, regular files and (when allowed) relative symbolic links are made.
//
// What it does not do: decompress, preserve times or owners, clean up after an error (the
// caller unpacks into a temporary directory and removes it).
package untar
