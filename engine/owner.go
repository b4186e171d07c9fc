//go:build !ownercheck

package engine

func taken(b *Buffer) *Buffer { return b }
func given(*Buffer)           {}
func owned(*Buffer)           {}
