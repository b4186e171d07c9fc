package agent_test

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"mobilegate/agent"
)

// Diary is an agent: it keeps what its users tell it, and forgets it only when they confirm.
type Diary struct {
	mu    sync.Mutex // one Diary serves all devices
	lines map[agent.Owner][]string
}

func (d *Diary) Ask(ctx context.Context, t *agent.Turn, emit func(agent.Event)) (string, error) {
	switch {
	case t.File != nil:
		return "", &agent.Failure{Tell: "The diary keeps words only.", Err: fmt.Errorf("diary: a file came")}
	case t.Text == "/read":
		for _, line := range d.of(t.Owner) {
			emit(agent.Event{Kind: agent.Delta, Text: line + "\n"}) // streamed: the device sees it grow
		}
		return "", ctx.Err()
	case t.Text == "/forget":
		return d.forget(ctx, t, emit)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lines == nil {
		d.lines = map[agent.Owner][]string{}
	}
	d.lines[t.Owner] = append(d.lines[t.Owner], strings.TrimSpace(t.Text))
	return fmt.Sprintf("Line %d.", len(d.lines[t.Owner])), nil
}

func (d *Diary) forget(ctx context.Context, t *agent.Turn, emit func(agent.Event)) (string, error) {
	answers := make(chan agent.Answer, 1)
	emit(agent.Event{Kind: agent.ShowCard, Card: &agent.Card{Kind: agent.SlashConfirm, Text: "Forget everything?", Answers: answers}})
	select {
	case <-ctx.Done(): // the turn was stopped
		return "", ctx.Err()
	case a := <-answers:
		if a.Expired || a.Option == "cancel" {
			if !a.Expired {
				a.Confirm(nil) // the answer is taken: the card closes
			}
			return "Kept.", nil
		}
		d.mu.Lock()
		delete(d.lines, t.Owner)
		d.mu.Unlock()
		a.Confirm(nil)
		return "Forgotten.", nil
	}
}

func (d *Diary) of(o agent.Owner) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.lines[o]
}

func ExampleAgent() {
	var d agent.Agent = new(Diary)
	ann := agent.Owner{Device: "tel-1", Entry: "MOBILE_TOKEN"}
	say := func(text string) {
		reply, err := d.Ask(context.Background(), &agent.Turn{Owner: ann, Text: text}, func(e agent.Event) {
			fmt.Print(e.Text)
			if e.Kind == agent.ShowCard {
				e.Card.Answers <- agent.Answer{Option: "once", Confirm: func(error) {}}
			}
		})
		if err == nil && reply != "" {
			fmt.Println(reply)
		}
	}
	say("It rained.")
	say("It snowed.")
	say("/read")
	say("/forget")
	say("/read")
	// Output:
	// Line 1.
	// Line 2.
	// It rained.
	// It snowed.
	// Forgotten.
}
