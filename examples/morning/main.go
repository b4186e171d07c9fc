// Command morning brings a device a message and a picture, as a cron job does; `go build ./examples/morning` makes it:
//
//	30 7 * * *  MOBILE_TOKEN=... morning ws://127.0.0.1:8787/ws mobile:tel-1 "Good morning" sunrise.jpg
//
// When that fails, it says why, which cron mails, and the job may simply run again: within ten minutes, what has the same
// id is delivered once. The id is the day.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	hermes "mobilegate/sdk/go"
)

func main() {
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "usage: MOBILE_TOKEN=... morning URL DEVICE TEXT PICTURE")
		os.Exit(2)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := deliver(ctx, os.Args[1], os.Args[2], os.Args[3], os.Args[4]); err != nil {
		fmt.Fprintln(os.Stderr, "morning:", err)
		os.Exit(1)
	}
}

func deliver(ctx context.Context, url, device, text, picture string) error {
	content, err := os.ReadFile(picture)
	if err != nil {
		return err
	}
	message := hermes.Deliver{
		ID:     "morning-" + time.Now().Format(time.DateOnly),
		Target: device,
		Text:   text,
		Media:  &hermes.Attachment{Kind: "image", Filename: filepath.Base(picture), Data: content},
	}
	client, err := hermes.NewClient(hermes.Config{URL: url, Token: os.Getenv("MOBILE_TOKEN")}) // no device id: the gateway makes one
	if err != nil {
		return err
	}
	// The loop keeps the connection; leaving it says goodbye.
	for ev, err := range client.Events(ctx) {
		if err != nil {
			return err // refused for good, or the minute is over
		}
		if _, ready := ev.Frame.(*hermes.Ready); !ready {
			continue
		}
		_, err := client.Deliver(ctx, message)
		var refused *hermes.Error
		if err == nil || errors.As(err, &refused) {
			return err // the device has it, or the gateway says why not: device_offline, say
		}
		// The connection broke. The next one tries again.
	}
	return nil
}
