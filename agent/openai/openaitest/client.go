package openaitest

import (
	"io"
	"log"
	"net/http"
	"sync"

	"mobilegate/internal/pipenet"
)

// Client returns a client that reaches the service whatever host it asks, with no network in between, so that it also works
// where time is driven; and what ends both.
func (a *API) Client() (client *http.Client, end func()) {
	l := pipenet.Listen()
	server := &http.Server{Handler: a, ErrorLog: log.New(io.Discard, "", 0)}
	var served sync.WaitGroup
	served.Go(func() { server.Serve(l) })
	t := &http.Transport{DialContext: l.Dial}
	return &http.Client{Transport: t}, func() {
		t.CloseIdleConnections()
		server.Close()
		served.Wait()
	}
}
