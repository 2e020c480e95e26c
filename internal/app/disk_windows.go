package app

import (
	"syscall"
	"unsafe"
)

// freeBytes is the room for us in the file system of a directory.
func freeBytes(dir string) (uint64, error) {
	path, err := syscall.UTF16PtrFromString(dir)
	if err != nil {
		return 0, err
	}
	var free uint64
	call := syscall.NewLazyDLL("kernel32.dll").NewProc("GetDiskFreeSpaceExW")
	ok, _, err := call.Call(uintptr(unsafe.Pointer(path)), uintptr(unsafe.Pointer(&free)), 0, 0) //nolint:gosec // how Windows is called
	if ok == 0 {
		return 0, err
	}
	return free, nil
}
