package upstream

import (
	"net/http"
	"time"
)

const (
	maxHeader = 64 << 10         // bytes of the header of an answer
	pingAfter = 15 * time.Second // of silence on a connection that many calls share; so long it may take to answer, too
)

// Client makes the client of a service that is called so many times at once; c lends its transport unless it is nil. It
// follows no redirection, which would show the key and what users say to somebody else; asks for nothing packed, which
// would come late and grow beyond its size; and sets no limit to a stream, which is for the caller to watch.
func Client(c *http.Client, calls int) *http.Client {
	if c == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.MaxIdleConns, t.MaxIdleConnsPerHost, t.MaxResponseHeaderBytes = calls, calls, maxHeader
		t.DisableCompression = true
		t.HTTP2 = &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingAfter} // else a dead one fails every call for a quarter of an hour
		c = &http.Client{Transport: t}
	}
	own := *c
	own.Timeout = 0
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &own
}
