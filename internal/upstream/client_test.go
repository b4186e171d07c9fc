package upstream

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestClient(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write(make([]byte, 1<<20))
	require.NoError(t, z.Close())
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was followed") }))
	defer elsewhere.Close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/moved":
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		case "/packed":
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(packed.Bytes())
		case "/talkative":
			w.Header().Set("X-More", strings.Repeat("x", maxHeader))
		}
	}))
	defer server.Close()
	c := Client(nil, 1)
	defer c.CloseIdleConnections()

	res, err := c.Get(server.URL + "/moved")
	require.NoError(t, err)
	require.Equal(t, http.StatusTemporaryRedirect, res.StatusCode)
	require.NoError(t, res.Body.Close())

	res, err = c.Get(server.URL + "/packed")
	require.NoError(t, err)
	data, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Equal(t, packed.Bytes(), data, "nothing is unpacked")
	require.NoError(t, res.Body.Close())

	_, err = c.Get(server.URL + "/talkative")
	require.Error(t, err)
}
