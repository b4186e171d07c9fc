package hermes_test

import (
	"context"
	"log/slog"
	"net"
	"strconv"
	"time"

	"mobilegate/agent"
	"mobilegate/engine"
	hermes "mobilegate/sdk/go"
	"mobilegate/session"
)

const token = "a-token"

// startGateway runs a gateway with the echo agent inside this process and says where it listens.
func startGateway() (url string, stop func()) {
	quiet := slog.New(slog.DiscardHandler)
	hub, err := session.New(session.Config{Agent: &agent.Echo{}, Access: session.Access{Tokens: []session.Token{{Secret: token}}}, Log: quiet})
	if err != nil {
		panic(err)
	}
	server := engine.New(engine.Config{Host: "127.0.0.1", MaxConnections: 100, Log: quiet}, hub)
	if err := server.Start(); err != nil {
		panic(err)
	}
	hub.Start()
	return "ws://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(server.Port())) + "/ws", func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		server.Stop(ctx)
		hub.Close()
	}
}

func config(url, device string) hermes.Config {
	return hermes.Config{URL: url, Token: token, Device: hermes.Device{ID: device, Name: "Phone", Platform: "test"}, MaxBackoff: time.Millisecond}
}
