// Package terminal asks what the other end of an input or output is. x is anything; what has no descriptor is no terminal.
package terminal

import "golang.org/x/sys/unix"

// Is tells whether x is a terminal.
func Is(x any) bool {
	f, ok := x.(interface{ Fd() uintptr })
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// Columns is the width of the terminal x, now: 80 when it does not say.
func Columns(x any) int {
	if f, ok := x.(interface{ Fd() uintptr }); ok {
		if size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err == nil && size.Col > 0 {
			return int(size.Col)
		}
	}
	return 80
}
