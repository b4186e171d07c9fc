// Package hermestest is a Hermes agent without a model: its HTTP API with runs, events, approvals and sessions, as an
// http.Handler that does what a script says. It is for the tests of whoever talks with that API, and for demonstrations.
//
//	s := hermestest.New(hermestest.Config{Key: "secret", Features: hermestest.B})
//	defer s.Close()
//	client := s.Client() // or http.ListenAndServe(address, s)
//
// With no script the agent answers from the history of its conversation: "turn 2: hello". Versions of the agent differ:
// [A] keeps the events of a run in one queue that dies with its reader, and knows no Idempotency-Key; [B] keeps a journal
// that may be read again and by many. Every single difference is a switch in [Features].
//
// # Scripts
//
// A script says what a run does, by its text, its number, or both: the first rule that fits counts, and a rule that names
// nothing fits always. As a file, for [Load]:
//
//	{
//	  "generation": "B",
//	  "features": {"request_id": false},
//	  "max_concurrent_runs": 10,
//	  "think": "50ms",
//	  "pace": "40ms",
//	  "rules": [
//	    {"prefix": "/sudo ", "steps": [
//	      {"do": "words", "text": "That needs your permission. "},
//	      {"do": "approval", "command": "{rest}", "text": "It changes the machine.", "choices": ["once", "deny"], "on": {
//	        "deny": [{"do": "complete", "text": "Then I leave it."}],
//	        "*": [{"do": "tool", "tool": "terminal", "text": "{rest}", "for": "2s"}, {"do": "delta", "text": "Done."}]
//	      }}
//	    ]},
//	    {"match": "^/file (\\S+)$", "steps": [{"do": "delta", "text": "MED"}, {"do": "delta", "text": "IA:{1}"}]},
//	    {"run": 3, "steps": [{"do": "cut", "text": "data: {\"ev"}, {"do": "wait", "for": "5s"}]},
//	    {"prefix": "/busy", "refuse": {"status": 429, "retry_after": "2"}}
//	  ],
//	  "faults": [{"route": "GET /v1/runs/{id}/events", "times": 2, "status": 503, "retry_after": "1"}]
//	}
//
// The fields are those of [Config], [Rule], [Step] and [Fault]; a duration is a string. In every text {input} is the text of
// the message, {rest} what follows the prefix, {0}, {1}, … the groups of match, {turn} the number of the turn in its
// conversation, and {png} a data URL of an image ([Pixel]).
//
// The steps, each with the fields that mean something to it:
//
//	delta           text, size             a piece of the answer, filled up to size
//	words           text, for              each word a piece, and a pause between them
//	tool            tool, text, for, error a tool that starts with the preview text and ends after a while
//	tool_started    tool, text             the first half of it
//	tool_completed  tool, error            the second
//	reasoning       text
//	event           event, fields          any other event
//	approval        command, text, choices, request_id, for, on, more, fields
//	                                       asks, and does the steps of the choice: "once", "timeout" (after for, or 300 s;
//	                                       without it "deny"), or "*"; more are further approvals, asked at the same time
//	wait            for, quiet             silence, for ever if for is missing; quiet: no keep-alive comments either
//	complete        text, silent, fields   the end: output is text, or all pieces; silent: the stream just ends
//	fail            text, silent, fields   the end with an error
//	cancel          silent, fields         the end as if it had been stopped
//	duplicate                              the last event once more, with the same id
//	raw             text                   text into the stream, as it is
//	cut             text                   the same, and the connection breaks off
//	eof                                    the stream ends as it should, and the run goes on
//	restart                                the whole agent dies and comes back, see [Server.Restart]
//	fault           fault                  trouble for the requests of this run from now on
//
// A step with times is done that often. A run that is stopped ends before its next step, or in a wait or an approval; a step
// with busy does not notice that. A run whose steps are all done is complete.
//
// # Time
//
// The package uses the clock of package time and nothing else: in a bubble of testing/synctest, with [Server.Client], hours
// pass in no time. Make the server, use it and close it in the same bubble.
package hermestest
