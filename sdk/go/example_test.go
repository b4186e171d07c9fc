package hermes_test

import (
	"context"
	"errors"
	"fmt"

	hermes "mobilegate/sdk/go"
)

// A device asks for a streamed answer and prints it. The gateway here runs inside of the example, with its echo agent.
func Example() {
	url, stop := startGateway()
	defer stop()
	client, err := hermes.NewClient(hermes.Config{
		URL:    url,
		Token:  "a-token",
		Device: hermes.Device{ID: "tel-1", Name: "Phone"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	for ev, err := range client.Events(ctx) {
		if err != nil {
			fmt.Println("the end:", err)
			return
		}
		switch f := ev.Frame.(type) {
		case *hermes.Ready:
			fmt.Println("connected as", f.Device.ID)
			client.SendText(ctx, "/stream one two three")
		case *hermes.Message:
			if f.Final {
				fmt.Println(f.Whole)
			}
		case *hermes.Typing:
			if f.Stop {
				return // answered; leaving the loop says goodbye
			}
		}
	}
	// Output:
	// connected as tel-1
	// one two three
}

// A card comes while the agent works, is answered, and closed by the gateway.
func ExampleClient_AnswerPrompt() {
	client, ctx, stop := newExample()
	defer stop()
	for ev := range client.Events(ctx) {
		switch f := ev.Frame.(type) {
		case *hermes.Ready:
			client.SendText(ctx, "/approve ls -l")
		case *hermes.Prompt:
			fmt.Println("may this run?", f.Command)
			client.AnswerPrompt(ctx, f.ID, "once", "")
		case *hermes.PromptDone:
			fmt.Println("it was decided:", f.OptionID)
			return
		}
	}
	// Output:
	// may this run? ls -l
	// it was decided: once
}

// A photo goes up; the echo agent sends it back.
func ExampleClient_SendMedia() {
	client, ctx, stop := newExample()
	defer stop()
	for ev := range client.Events(ctx) {
		switch f := ev.Frame.(type) {
		case *hermes.Ready:
			client.SendMedia(ctx, hermes.Upload{Kind: "image", Filename: "photo.jpg", Data: []byte("light"), Caption: "look"})
		case *hermes.Media:
			fmt.Println(f.Kind, f.Filename, f.Mime, string(f.Data))
			return
		}
	}
	// Output:
	// image photo.jpg image/jpeg light
}

// A program brings a device a message, and hears that the device is not there.
func ExampleClient_Deliver() {
	client, ctx, stop := newExample()
	defer stop()
	for ev := range client.Events(ctx) {
		if _, ready := ev.Frame.(*hermes.Ready); !ready {
			continue
		}
		_, err := client.Deliver(ctx, hermes.Deliver{Target: "mobile:tel-2", Text: "good morning"})
		var refused *hermes.Error
		if errors.As(err, &refused) {
			fmt.Println(refused.Code)
		}
		return
	}
	// Output:
	// device_offline
}

// A Session gives the frames as they come: a program that relays them has no use for more.
func ExampleSession() {
	url, stop := startGateway()
	defer stop()
	session, err := hermes.NewSession(config(url, "tel-1"))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var transcript hermes.Transcript
	for ev, err := range session.Events(ctx) {
		if err != nil {
			fmt.Println("the end:", err)
			return
		}
		switch f := ev.Frame.(type) {
		case *hermes.Ready:
			transcript = hermes.Transcript{}
			session.Send(ctx, hermes.Text{ID: hermes.NewID(), Text: "hi"})
		case *hermes.Message:
			fmt.Println(transcript.Add(f))
		case *hermes.Typing:
			if f.Stop {
				cancel()
			}
		case *hermes.Lost:
			fmt.Println("trying again in", f.Wait)
		}
	}
	// Output:
	// hi true
	// the end: context canceled
}

func newExample() (client *hermes.Client, ctx context.Context, stop func()) {
	url, stop := startGateway()
	client, err := hermes.NewClient(config(url, "tel-1"))
	if err != nil {
		panic(err)
	}
	return client, context.Background(), stop
}
