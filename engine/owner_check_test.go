//go:build ownercheck

package engine

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

const ownersChecked = true

// unreturned is the number of Buffers that nobody gave back.
func unreturned() int { return int(lent.Load()) }

func TestOwnerCheck(t *testing.T) {
	b := GetBuffer()
	b.B = append(b.B, "secret"...)
	kept := b.B
	PutBuffer(b)
	require.Equal(t, bytes.Repeat([]byte{0xDB}, 6), kept)
	require.PanicsWithValue(t, "engine: a buffer is given back twice", func() { PutBuffer(b) })
	require.PanicsWithValue(t, "engine: a buffer is used after it was given back", func() { new(conn).Send(b) })
}
