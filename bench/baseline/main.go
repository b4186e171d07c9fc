// Command baseline is a gateway for the same protocol, written the usual way: net/http, gorilla/websocket, encoding/json, two
// goroutines per connection. It is what mobilegate is measured against (make bench), and a module of its own, so that its
// dependencies stay out of the gateway's.
//
// It speaks the part of the protocol that is measured: hello and ready with a check of the token, take-over, ping, an echo
// turn for text, audio and media with the frames of avatar and typing, uploads in parts, close handshakes, keep-alive. It has
// no cards, streams, deliveries, quotas, resume, memory of repeated ids, and no cut of replies over 3 500 characters.
//
// The settings are MOBILE_HOST, MOBILE_PORT, MOBILE_TOKEN, MOBILE_PING_INTERVAL and MOBILE_LOG_FORMAT, as for mobilegate.
package main

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/gorilla/websocket"
)

func main() {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	if os.Getenv("MOBILE_LOG_FORMAT") == "json" {
		log = slog.New(slog.NewJSONHandler(os.Stderr, nil))
	}
	if err := serve(log); err != nil {
		log.Error("the server ended", "error", err)
		os.Exit(1)
	}
}

func serve(log *slog.Logger) error {
	token := os.Getenv("MOBILE_TOKEN")
	if token == "" {
		return errors.New("MOBILE_TOKEN is not set")
	}
	ping, err := time.ParseDuration(cmp.Or(os.Getenv("MOBILE_PING_INTERVAL"), "50s"))
	if err != nil {
		return errors.New("MOBILE_PING_INTERVAL is no duration")
	}
	address := net.JoinHostPort(cmp.Or(os.Getenv("MOBILE_HOST"), "127.0.0.1"), cmp.Or(os.Getenv("MOBILE_PORT"), "8787"))
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	h := &hub{token: []byte(token), ping: ping, online: map[string]*client{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ws", h.serveWS)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("ok\n")) })
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 8 << 10}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	log.Info("listening", "url", "ws://"+listener.Addr().String()+"/ws")
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	server.Close()
	h.closeAll(websocket.CloseGoingAway, "going away")
	return nil
}
