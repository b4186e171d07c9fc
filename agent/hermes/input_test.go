package hermes

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"mobilegate/agent"
	"mobilegate/agent/hermes/hermestest"
)

func withFile(id, text string, f *agent.File) *agent.Turn {
	t := turn(id, text)
	t.File = f
	return t
}

func TestImage(t *testing.T) {
	for name, features := range generations {
		t.Run(name, func(t *testing.T) {
			play(t, hermestest.Config{Features: features}, Config{}, func(s *stage) {
				s.says("m-1", "hello", "turn 1: hello")
				h := s.ask(withFile("m-2", "what is it?", fileOf("image", "x.png", "image/png", hermestest.Pixel())))
				require.NoError(s, h.err)
				require.Equal(s, "turn 2: what is it? (1 image)", h.text())
				run := s.hermes.Runs()[1]
				require.True(s, run.Session)
				require.Equal(s, "image/png", run.Images[0].Type)
				require.Equal(s, len(hermestest.Pixel()), run.Images[0].Size)
				s.says("m-3", "thanks", "turn 3: thanks")
				h = s.ask(withFile("m-4", "", fileOf("image", "x.png", "image/png", hermestest.Pixel())))
				require.NoError(s, h.err)
				require.Contains(s, h.text(), "turn 4:")
			})
		})
	}
}

func TestImageIsTheFirstMessage(t *testing.T) {
	play(t, hermestest.Config{}, Config{}, func(s *stage) {
		h := s.ask(withFile("m-1", "what is it?", fileOf("image", "x.png", "image/png", hermestest.Pixel())))
		require.NoError(s, h.err)
		require.Equal(s, "turn 1: what is it? (1 image)", h.text())
		require.Equal(s, 1, s.count("POST /api/sessions"))
		s.says("m-2", "thanks", "turn 2: thanks")
	})
}

// TestImageWithoutSessions: an agent that says nothing of itself gets images with its runs.
func TestImageWithoutSessions(t *testing.T) {
	play(t, hermestest.Config{Faults: []hermestest.Fault{{Route: "GET /v1/capabilities", Status: 404, Times: -1}}}, Config{}, func(s *stage) {
		h := s.ask(withFile("m-1", "what is it?", fileOf("image", "x.png", "image/png", hermestest.Pixel())))
		require.NoError(s, h.err)
		require.Equal(s, "turn 1: what is it? (1 image)", h.text())
		require.False(s, s.hermes.Runs()[0].Session)
		require.Equal(s, 1, s.count("GET /v1/capabilities"))
	})
}

func TestImageRunMeetsTrouble(t *testing.T) {
	pixel := func() *agent.Turn {
		return withFile("m-1", "go", fileOf("image", "x.png", "image/png", hermestest.Pixel()))
	}
	steps := rule(step("delta", "one "), hermestest.Step{Do: "wait", For: 3 * time.Second}, step("cut", ""), hermestest.Step{Do: "wait", For: 3 * time.Second}, step("delta", "two"))
	play(t, hermestest.Config{Features: hermestest.B, Rules: steps}, Config{}, func(s *stage) {
		h := s.ask(pixel())
		require.NoError(s, h.err)
		require.Equal(s, "one two", h.text())
		h = s.ask(pixel())
		require.NoError(s, h.err, "the same message once more")
		require.Equal(s, "one two", h.text())
		require.Len(s, s.hermes.Runs(), 1)
	})
	missing := []hermestest.Fault{{Route: "POST /api/sessions/{id}/chat/stream", Status: 404, Body: "no such session"}}
	play(t, hermestest.Config{Features: hermestest.B, Faults: missing}, Config{}, func(s *stage) { // whatever it calls that
		h := s.ask(pixel())
		require.NoError(s, h.err)
		require.Equal(s, 1, s.count("POST /api/sessions"))
	})
	play(t, hermestest.Config{Rules: steps}, Config{}, func(s *stage) { // this one ends with its reader
		h := s.ask(pixel())
		require.Equal(s, "one ", h.text())
		h.tell(s.T)
	})
	play(t, hermestest.Config{Features: hermestest.B, Rules: rule(dangerous("ls"))}, Config{}, func(s *stage) {
		h, done := s.begin(s.Context(), pixel())
		require.NoError(s, press(<-h.shown, "once"))
		<-done
		require.Equal(s, "ls once.", strings.TrimSpace(h.text()))
	})
	play(t, hermestest.Config{Features: hermestest.B, Rules: []hermestest.Rule{{Run: 1, Steps: []hermestest.Step{step("fail", "")}}}}, Config{}, func(s *stage) {
		s.ask(pixel()).tell(s.T)
		require.Equal(s, "turn 2: go (1 image)", s.ask(pixel()).text())
	})
}

// TestInlinedImages: a session's stream names a file in its pieces, and has it inlined in its answer.
func TestInlinedImages(t *testing.T) {
	play(t, hermestest.Config{Rules: rule(step("delta", "Look: MEDIA:/home/x.png and "), step("delta", "MEDIA:/home/x.doc."),
		step("complete", "Look: ![image]({png}) and MEDIA:/home/x.doc."))}, Config{}, func(s *stage) {
		h := s.ask(withFile("m-1", "go", fileOf("image", "x.png", "image/png", hermestest.Pixel())))
		require.NoError(s, h.err)
		require.Equal(s, "Look:  and .\nA file of this answer is not sent: it lies where the gateway may not read.", strings.ReplaceAll(h.text(), "\n\n", "\n"))
		require.Len(s, h.files(), 1)
		require.Equal(s, hermestest.Pixel(), content(s.T, h.files()[0]))
	})
}

func TestLargeImageIsMadeToFit(t *testing.T) {
	large := append(hermestest.Pixel(), make([]byte, maxImage)...)
	play(t, hermestest.Config{}, Config{}, func(s *stage) {
		h := s.ask(withFile("m-1", strings.Repeat("\x01", 12_000), fileOf("image", "x.png", "image/png", large)))
		require.NoError(s, h.err)
		run := s.hermes.Runs()[0]
		require.Equal(s, "image/jpeg", run.Images[0].Type)
		for _, r := range s.hermes.Requests() {
			require.LessOrEqual(s, r.Size, maxRequest)
		}
	})
	full := input{text: strings.Repeat("\x01", 12_000), user: strings.Repeat("я", maxName), image: "data:image/jpeg;base64," + strings.Repeat("A", (maxImage+2)/3*4)}
	require.LessOrEqual(t, len(full.runBody(sessionID(phone))), maxRequest)
	require.LessOrEqual(t, len(full.streamBody()), maxRequest)
}

func TestFilesForTheAgent(t *testing.T) {
	for name, c := range map[string]struct {
		file  *agent.File
		text  string
		spool bool
		tell  string // what the user hears; empty: a run begins
	}{
		"document":                 {fileOf("document", "a \"b\"\n.pdf", "application/pdf", []byte("%PDF-")), "", true, ""},
		"voice":                    {fileOf("audio", "v.ogg", "audio/ogg", []byte("OggS")), "what I said", true, ""},
		"voice without transcript": {fileOf("audio", "v.ogg", "audio/ogg", []byte("OggS")), "", true, ""},
		"strange image":            {fileOf("image", "i.heic", "image/heic", []byte("heic")), "see", true, ""},
		"no place":                 {fileOf("document", "a.pdf", "", []byte("%PDF-")), "read it", false, tellNoFiles},
		"no place for a film":      {fileOf("video", "a.mp4", "", []byte("x")), "", false, tellNoFiles},
		"voice as text":            {fileOf("audio", "v.ogg", "audio/ogg", []byte("OggS")), "what I said", false, ""},
		"voice without text":       {fileOf("audio", "v.ogg", "audio/ogg", []byte("OggS")), "", false, tellNoVoice},
		"no image":                 {fileOf("image", "i.heic", "image/heic", []byte("heic")), "see", false, tellNoImage},
	} {
		t.Run(name, func(t *testing.T) {
			var cfg Config
			if c.spool {
				cfg.MediaDir = t.TempDir()
			}
			play(t, hermestest.Config{Features: hermestest.B, Rules: rule(step("complete", "ok"))}, cfg, func(s *stage) {
				h := s.ask(withFile("m-1", c.text, c.file))
				require.NoError(s, h.err)
				if c.tell != "" {
					require.Equal(s, c.tell, h.reply)
					require.Empty(s, s.hermes.Runs())
					return
				}
				text := s.hermes.Runs()[0].Text
				if !c.spool {
					require.Equal(s, c.text, text)
					return
				}
				lead, line, ok := strings.Cut(text, "[The user sent this file: ")
				require.True(s, ok)
				require.Equal(s, c.text, strings.TrimSuffix(lead, "\n\n"))
				require.NotContains(s, line, "\n")
				var said struct {
					Path, Name, Mime string
					Bytes            int
				}
				require.NoError(s, json.Unmarshal([]byte(strings.TrimSuffix(line, "]")), &said))
				require.Equal(s, c.file.Name, said.Name)
				require.Equal(s, c.file.Mime, said.Mime)
				b, err := os.ReadFile(said.Path)
				require.NoError(s, err)
				require.Equal(s, content(s.T, c.file), b)
				require.Len(s, b, said.Bytes)
				h = s.ask(withFile("m-1", c.text, c.file))
				require.Equal(s, "ok", h.text(), "sent again")
				require.Len(s, s.hermes.Runs(), 1, "it is the same to Hermes")
			})
		})
	}
}

// TestPlacesForImages: an image holds its place until the agent has taken it, and no longer.
func TestPlacesForImages(t *testing.T) {
	play(t, hermestest.Config{MaxConcurrentRuns: -1, Rules: rule(hermestest.Step{Do: "wait", For: time.Minute})}, Config{}, func(s *stage) {
		var all []chan struct{}
		for i := range 3 * maxPictures {
			ask := withFile("m-1", "go", fileOf("image", "x.png", "image/png", hermestest.Pixel()))
			ask.Device += strings.Repeat("x", i)
			h, done := s.begin(s.Context(), ask)
			all = append(all, done)
			defer func() { require.NoError(s, h.err) }()
		}
		time.Sleep(time.Second)
		synctest.Wait()
		require.Len(s, s.hermes.Runs(), 3*maxPictures)
		require.Empty(s, s.agent.picture)
		for _, done := range all {
			<-done
		}
	})
	play(t, hermestest.Config{}, Config{}, func(s *stage) {
		for range maxPictures {
			s.agent.picture <- struct{}{}
		}
		start := time.Now()
		s.ask(withFile("m-1", "go", fileOf("image", "x.png", "image/png", hermestest.Pixel()))).tell(s.T)
		require.Equal(s, 5*time.Minute, time.Since(start))
	})
}
