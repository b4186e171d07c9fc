// Command talk has a streamed answer, a card and a photo: MOBILE_TOKEN=... talk ws://127.0.0.1:8787/ws
package main

import (
	"context"
	"encoding/hex"
	"fmt"
	"log"
	"os"

	hermes "mobilegate/sdk/go"
)

var photo, _ = hex.DecodeString("47494638396101000100000000002c00000000010001000002003b") // one pixel

func main() {
	ctx := context.Background()
	client, err := hermes.NewClient(hermes.Config{
		URL:    os.Args[1],
		Token:  os.Getenv("MOBILE_TOKEN"),
		Device: hermes.Device{ID: "tel-1", Name: "Phone"},
	})
	if err != nil {
		log.Fatal(err)
	}
	// The loop connects, and connects again whenever the connection breaks.
	for ev, err := range client.Events(ctx) {
		if err != nil {
			log.Fatal(err) // refused for good
		}
		switch f := ev.Frame.(type) {
		case *hermes.Ready:
			client.SendText(ctx, "/stream one two three")
			client.SendText(ctx, "/approve ls -l")
			client.SendMedia(ctx, hermes.Upload{Kind: "image", Filename: "pixel.gif", Data: photo})
		case *hermes.Message:
			if f.Final {
				fmt.Println("agent:", f.Whole)
			} else {
				fmt.Println("agent: ...")
			}
		case *hermes.Prompt:
			fmt.Println("card: may this run?", f.Command)
			client.AnswerPrompt(ctx, f.ID, "once", "")
		case *hermes.Media:
			fmt.Println("photo:", f.Filename, f.Mime, f.Size, "bytes")
			return // leaving the loop says goodbye
		}
	}
}
