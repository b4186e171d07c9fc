package transcript

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

// TestContent: every part of the endless content is the same, however it is read, and the sum is of the very bytes.
func TestContent(t *testing.T) {
	all, err := content("0..1000")
	require.NoError(t, err)
	for from := 0; from <= 1000; from += 37 {
		for _, to := range []int{from, from + 1, from + 7, 1000} {
			if to = min(to, 1000); from <= to {
				part, err := content(fmt.Sprintf("%d..%d", from, to))
				require.NoError(t, err)
				require.Equal(t, all[from:to], part)
			}
		}
	}
	require.NotEqual(t, all[:8], all[8:16])
	require.Equal(t, base64.StdEncoding.EncodeToString(all[5:9]), must(generate("base64 5..9")))
	require.Equal(t, fmt.Sprintf("%x", sha256.Sum256(all)), must(generate("sha256 0..1000")))
	require.NoError(t, iotest.TestReader(io.NewSectionReader(Content(1000), 0, 1000), all))
}

// TestLongData: the data of a file is the same however it is read.
func TestLongData(t *testing.T) {
	data := strings.Repeat("AAAA", long/4)
	for frame, want := range map[string]any{
		`{"t":"media","data":"` + data + `","x":1}`:          data,
		`{"t":"media","data":"` + data + `\n"}`:              data + "\n",
		`{"t":"media","text":"` + data + `","data":""}`:      "",
		`{"x":{"data":"` + data + `"},"data":"AAAA"}`:        "AAAA",
		`{"x":{"data":"` + data + `"},"pad":"` + data + `"}`: nil,
	} {
		v, err := decode([]byte(frame))
		require.NoError(t, err)
		require.Equal(t, want, v.(map[string]any)["data"])
	}
	for _, frame := range []string{`{"data":"` + data, `{"data":"` + data + `"`, `{"data":"` + data + `" x}`} {
		_, err := decode([]byte(frame))
		require.Error(t, err)
	}
}
