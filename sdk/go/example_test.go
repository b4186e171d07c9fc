package hermes_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	hermes "mobilegate/sdk/go"

	"github.com/coder/websocket"
)

// A device says hi and prints the streamed answer. The gateway here is a stand-in that plays its side by the book.
func Example() {
	gateway := httptest.NewServer(http.HandlerFunc(standIn))
	defer gateway.Close()

	s, err := hermes.NewSession(hermes.Config{
		URL:    "ws" + strings.TrimPrefix(gateway.URL, "http") + "/ws",
		Token:  "a-token",
		Device: hermes.Device{ID: "tel-1", Name: "Phone"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	var transcript hermes.Transcript
	for ev, err := range s.Events(ctx) {
		if err != nil {
			fmt.Println("the end:", err)
			return
		}
		switch f := ev.Frame.(type) {
		case *hermes.Ready:
			fmt.Println("connected as", f.Device.ID)
			transcript = hermes.Transcript{}
			s.Send(ctx, hermes.Text{ID: hermes.NewID(), Text: "hi"})
		case *hermes.Message:
			text, final := transcript.Add(f)
			fmt.Println(text, final)
		case *hermes.Typing:
			if f.Stop {
				cancel() // answered; the session says goodbye
			}
		case *hermes.Lost:
			fmt.Println("trying again in", f.Wait)
		}
	}
	// Output:
	// connected as tel-1
	// you false
	// you said hi true
	// the end: context canceled
}

func standIn(w http.ResponseWriter, r *http.Request) {
	ws, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer ws.CloseNow()
	for {
		_, b, err := ws.Read(r.Context())
		if err != nil {
			return
		}
		var f struct{ T, Text string }
		json.Unmarshal(b, &f)
		var answer []string
		switch f.T {
		case "hello":
			answer = []string{`{"t":"ready","v":1,"session":"mobile:tel-1","device":{"id":"tel-1","name":"Phone"}}`}
		case "text":
			answer = []string{
				`{"t":"typing"}`,
				`{"t":"message","id":"a","text":"you","chunk":{"index":0,"total":1},"final":false}`,
				`{"t":"message","id":"a","text":"you said ` + f.Text + `","chunk":{"index":0,"total":1},"final":true,"edit":true}`,
				`{"t":"typing","stop":true}`,
			}
		}
		for _, a := range answer {
			ws.Write(r.Context(), websocket.MessageText, []byte(a))
		}
	}
}
