//go:build linux || darwin || freebsd

package app

import "syscall"

// freeBytes is the room for us in the file system of a directory.
func freeBytes(dir string) (uint64, error) {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return 0, err
	}
	return product(fs.Bavail, fs.Bsize), nil
}

// product multiplies counts whose types differ from system to system.
func product[A, B int32 | int64 | uint32 | uint64](a A, b B) uint64 { return uint64(a) * uint64(b) }
