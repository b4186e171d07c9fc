package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"mobilegate/codec"
	hermes "mobilegate/sdk/go"
)

const sendUsage = `usage: mobilegate send --to mobile:ID [--text TEXT] [--file FILE] [more flags]

Delivers a text, a file, or both to a device that is connected.

  --to mobile:ID      the device
  --text TEXT         at most 12000 characters
  --file FILE         at most 8 MiB
  --kind KIND         of FILE: image, voice, video, document or animation (default: by its extension)
  --id ID             name of this message, at most 128 characters (default: a new one); sent again to the same device with
                      the same ID within ten minutes, a message is delivered once
  --url URL           address of the gateway (default ws://127.0.0.1:8787/ws)
  --token-file FILE   file that holds the token (default: MOBILE_DELIVER_TOKEN, else MOBILE_TOKEN, of the environment)
  --timeout DURATION  how long it may take in all (default 30s)

The token is one of the gateway's MOBILE_DELIVER_TOKENS. On the gateway's own host, as the gateway's own user, one that
any device may use serves too.

Exit status:
  0  delivered
  1  anything else
  2  the command line is wrong, or the gateway does not take such a message
  3  the device is offline
  4  not allowed: another token is needed
  5  the gateway cannot be reached; nothing was sent
  6  no answer in time: it may have been delivered; try again with the same --id
`

// Exit statuses of send.
const (
	exitOffline     = 3
	exitForbidden   = 4
	exitUnreachable = 5
	exitNoAnswer    = 6
)

// runSend is the command "send". It returns the exit status, and says nothing when all is well: a cron job mails the rest.
func runSend(ctx context.Context, args []string, env func(string) string, out, errOut io.Writer) int {
	s, err := newSending(args, env)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(out, sendUsage)
		return exitOK
	}
	status, reason := exitUsage, ""
	if err != nil {
		reason = err.Error()
	} else {
		ctx, cancel := context.WithTimeoutCause(ctx, s.timeout, errLate)
		status, reason = s.run(ctx)
		cancel()
	}
	if status != exitOK {
		fmt.Fprintln(errOut, "send:", cleanLine(reason))
	}
	return status
}

// errLate is the cause with which the context of run ends when the time is up.
var errLate = errors.New("the time is up")

// sending is one run of the command.
type sending struct {
	config  hermes.Config
	frame   hermes.Deliver
	timeout time.Duration

	session *hermes.Session
	sent    bool   // the frame may have reached the gateway
	last    string // why it has to be sent again
}

// newSending reads flags, environment and files. The token is no flag, since every user of the machine sees those.
func newSending(args []string, env func(string) string) (*sending, error) {
	s := &sending{}
	flags := flag.NewFlagSet("send", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&s.frame.Target, "to", "", "")
	flags.StringVar(&s.frame.Text, "text", "", "")
	flags.StringVar(&s.frame.ID, "id", hermes.NewID(), "")
	flags.StringVar(&s.config.URL, "url", "ws://127.0.0.1:8787/ws", "")
	flags.DurationVar(&s.timeout, "timeout", 30*time.Second, "")
	file, kind, tokenFile := flags.String("file", "", ""), flags.String("kind", "", ""), flags.String("token-file", "", "")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	switch {
	case flags.NArg() > 0:
		return nil, errors.New("unexpected argument; see mobilegate send --help")
	case strings.TrimPrefix(s.frame.Target, "mobile:") == "":
		return nil, errors.New("--to must name a device: mobile:ID")
	case strings.TrimSpace(s.frame.Text) == "" && *file == "":
		return nil, errors.New("nothing to send: --text or --file is needed")
	case *kind != "" && *file == "":
		return nil, errors.New("--kind goes with --file")
	case s.frame.ID == "" || utf8.RuneCountInString(s.frame.ID) > codec.MaxIDChars || !utf8.ValidString(s.frame.ID):
		return nil, fmt.Errorf("--id must have 1 to %d characters", codec.MaxIDChars)
	case s.timeout <= 0:
		return nil, errors.New("--timeout must be longer than nothing")
	}
	var err error
	if s.config.Token, err = clientToken(*tokenFile, env, "MOBILE_DELIVER_TOKEN", "MOBILE_TOKEN"); err != nil {
		return nil, err
	}
	if *file != "" {
		if s.frame.Media, err = attachment(*file, *kind); err != nil {
			return nil, err
		}
	}
	s.config.Device = hermes.Device{Name: "mobilegate send", Platform: "terminal"} // without an id: the gateway makes one
	s.config.MaxBackoff = 2 * time.Second
	s.session, err = hermes.NewSession(s.config)
	return s, err
}

// attachment reads file. Its type is left to the gateway, which guesses it from the name and the content.
func attachment(file, kind string) (*hermes.Attachment, error) {
	kind = cmp.Or(kind, kinds[strings.ToLower(filepath.Ext(file))], codec.MediaDocument)
	switch kind {
	case codec.MediaImage, codec.MediaVoice, codec.MediaVideo, codec.MediaDocument, codec.MediaAnimation:
	default:
		return nil, errors.New("--kind must be image, voice, video, document or animation")
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, codec.MaxMediaBytes+1))
	switch {
	case err != nil:
		return nil, err
	case len(content) == 0:
		return nil, errors.New("the file is empty")
	case len(content) > codec.MaxMediaBytes:
		return nil, errors.New("the file is too big: at most 8 MiB (8388608 bytes) can be delivered")
	}
	return &hermes.Attachment{Kind: kind, Filename: filepath.Base(file), Data: content}, nil
}

// kinds of file by extension; any other is a document.
var kinds = map[string]string{
	".jpg": codec.MediaImage, ".jpeg": codec.MediaImage, ".png": codec.MediaImage, ".webp": codec.MediaImage,
	".bmp": codec.MediaImage, ".heic": codec.MediaImage, ".avif": codec.MediaImage,
	".gif": codec.MediaAnimation,
	".ogg": codec.MediaVoice, ".oga": codec.MediaVoice, ".opus": codec.MediaVoice, ".wav": codec.MediaVoice,
	".mp3": codec.MediaVoice, ".m4a": codec.MediaVoice, ".aac": codec.MediaVoice, ".flac": codec.MediaVoice,
	".mp4": codec.MediaVideo, ".m4v": codec.MediaVideo, ".mov": codec.MediaVideo, ".webm": codec.MediaVideo,
	".mkv": codec.MediaVideo, ".avi": codec.MediaVideo, ".3gp": codec.MediaVideo,
}

// run sends the frame and waits for what becomes of it. Once the frame may have arrived, a connection that breaks is made
// again until ctx ends, since nobody can tell otherwise; before that, the first failure is the end.
func (s *sending) run(ctx context.Context) (status int, reason string) {
	live, leave := context.WithCancel(ctx)
	defer leave()
	done := false
	for ev, err := range s.session.Events(live) {
		switch f := ev.Frame.(type) {
		case nil:
			if err != nil && !done {
				return s.ended(ctx, err)
			}
		case *hermes.Ready:
			s.sent = true
			s.session.Send(live, s.frame) // an error needs no handling: the end of the connection is an event
		case *hermes.Lost:
			s.last = f.Err.Error()
			if !s.sent {
				return exitUnreachable, "cannot reach the gateway: " + s.last
			}
		case *hermes.Delivered:
			done = done || f.ID == s.frame.ID
		case *hermes.Error:
			if !done && !f.Fatal {
				status, reason, done = s.refused(live, f)
			}
		}
		if done {
			leave() // the session says goodbye, and the loop ends
		}
	}
	return status, reason
}

// refused takes an error that the connection survives. One without an id is about the only frame of this connection, too.
func (s *sending) refused(ctx context.Context, e *hermes.Error) (status int, reason string, done bool) {
	switch {
	case e.ID != "" && e.ID != s.frame.ID:
		return 0, "", false
	case codec.Code(e.Code) == codec.RateLimited:
		s.last = "the gateway asks to wait: " + e.Message
		wait := time.Duration(min(max(e.RetryAfterMS, 100), 1e6)) * time.Millisecond
		time.AfterFunc(wait, func() { s.session.Send(ctx, s.frame) })
		return 0, "", false
	}
	return statusOf(e.Code), e.Code + ": " + e.Message, true
}

// ended says what it means that the session is over.
func (s *sending) ended(ctx context.Context, err error) (status int, reason string) {
	var gone *hermes.CloseError
	switch {
	case context.Cause(ctx) == errLate && !s.sent:
		return exitUnreachable, fmt.Sprintf("the gateway did not answer within %v", s.timeout)
	case context.Cause(ctx) == errLate:
		reason = fmt.Sprintf("no answer within %v, so it may have been delivered; to try again and not deliver it twice: --id %s", s.timeout, s.frame.ID)
		if s.last != "" {
			reason += " (" + s.last + ")"
		}
		return exitNoAnswer, reason
	case ctx.Err() != nil:
		return exitFailed, "interrupted"
	case errors.As(err, &gone) && gone.Fatal != nil:
		return statusOf(gone.Fatal.Code), gone.Fatal.Code + ": " + gone.Fatal.Message
	case errors.As(err, &gone):
		return statusOf(gone.Reason), "the gateway refused: " + gone.Reason
	}
	return exitFailed, err.Error()
}

// statusOf is the exit status for an error of the gateway.
func statusOf(code string) int {
	switch codec.Code(code) {
	case codec.DeviceOffline:
		return exitOffline
	case codec.Forbidden, codec.AuthFailed:
		return exitForbidden
	case codec.BadFrame, codec.TooBig, codec.UnsupportedFrame:
		return exitUsage
	}
	return exitFailed
}
