package hermes

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"mobilegate/agent"
)

// TestOutput: what the whole answer has beyond what was streamed is said, and nothing twice. A tool is a "|" here.
func TestOutput(t *testing.T) {
	for _, c := range []struct {
		streamed, output, want string
		lost                   bool // the end of the stream
	}{
		{"", "all", "all", false},
		{"", " all \n", "all", false},
		{"", "", tellNothing, false},
		{"", " \n", tellNothing, false},
		{"all", "all", "all", false},
		{"all", "", "all", false},
		{"all of", "all of it", "all of it", true},
		{"all of ", "all of it", "all of it", true},
		{"\n all", "all of it", "\n all of it", true},
		{"all ", "all", "all ", false},
		{"Let me look.|It is 4", "It is 4", "Let me look.\n\nIt is 4", false},
		{"Let me look.|It is", "It is 4", "Let me look.\n\nIt is 4", true},
		{"Let me look.|It is", "Let me look.It is 4", "Let me look.\n\nIt is 4", true},
		{"Let me look.|", "It is 4", "Let me look.\nIt is 4", false},
		{"Let me look.", "It is 4", "Let me look.\nIt is 4", true},
		{"Let me look.|It is 4.|", "It is 4.", "Let me look.\n\nIt is 4.", false},
		{"It is fourr.", "It is four.", "It is fourr.", false},
		{"It is fourr.", "It is four.", "It is fourr.\nIt is four.", true},
	} {
		h := new(heard)
		p := newSpeech(&share{}, phone, func(e agent.Event) { h.events = append(h.events, e) })
		p.whole = !c.lost
		for i, part := range strings.Split(c.streamed, "|") {
			if i > 0 {
				require.NoError(t, p.pause())
			}
			for _, r := range part {
				require.NoError(t, p.delta(string(r)))
			}
		}
		var err error
		h.reply, err = p.finish(c.output)
		require.NoError(t, err)
		require.Equal(t, c.want, h.text(), "%q %q", c.streamed, c.output)
	}
}
