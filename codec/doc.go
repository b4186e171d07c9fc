// Package codec is the words of Hermes Mobile protocol v1: what a device says becomes an In, what the gateway says is
// appended to a buffer. It knows nothing of connections, devices or agents, and keeps no state.
//
// One WebSocket message carries one frame: a JSON object in UTF-8 whose field t names its type.
//
//	device                                     gateway
//	  | -- hello {token, device, user} ----------> |  first frame, within 15 s
//	  | <---------- ready {session, capabilities}  |  or error {fatal:true} and close 1008
//	  |                                            |
//	  | -- text {id, text} ----------------------> |  a turn begins
//	  | <--------------- avatar {state:thinking}   |
//	  | <-------------------------------- typing   |
//	  | <---------- message {id, chunk, final}...  |  the reply, in pieces or edits
//	  | <--------------- avatar {state:speaking}   |  after the first of them
//	  | <---------------------- typing {stop:true} |  the turn ends
//	  | <------------------- avatar {state:idle}   |  3 s after the last message
//	  |                                            |
//	  | <------------- prompt {id, kind, options}  |  inside a turn: a card, alive for 300 s
//	  | -- prompt {prompt_id, option_id} --------> |
//	  | <-------- prompt_done {id, option_id}      |  the choice that took effect
//	  |                                            |
//	  | -- ping {ts} ----------------------------> |
//	  | <----------------------------- pong {ts}   |  the same ts, byte for byte
//
// # From the device
//
// Read by Decode into an In; * marks what must be there. Every id has at most 128 characters, what is longer is cut.
//
//	t        payload                                       limits, checked in this order
//	hello    token* device{id name platform app_version}   64 KiB for the whole frame; strings cut to 120 characters;
//	         user{id name} resume{session seq}             device.id without control characters
//	text     id* text*                                     not only white space; 12 000 characters
//	audio    id* format* data* text                        wav or ogg; data in base64, 8 MiB decoded; text 12 000 characters
//	media    id* kind* data* mime filename caption         image, video, document, audio; caption 12 000 characters;
//	         part=0 parts=1                                parts 1..2048, part 0..parts-1; 8 MiB a file; file name cut to 200
//	prompt   prompt_id* option_id text                     one of option_id and text; text 12 000 characters
//	typing   -
//	ping     ts                                            4 KiB of any JSON
//	ack      id seq
//	deliver  id* target text media{kind* mime filename     only who has the right; text or media; text 12 000 characters;
//	         data*}                                        image, voice (or audio), video, document, animation; 8 MiB
//
// A type that is not in this table is Unknown and no error. A message has at most 16 MiB.
//
// # To the device
//
// One Append function each; ? marks what is left out when empty. seq is only for a device that asked for resume.
//
//	t            payload                                                                limits
//	ready        v session device{id name} avatar_url capabilities                      first frame after hello
//	             resume{session seq replayed}?
//	message      id text chunk{index total} final edit? seq?                            3 500 characters a frame
//	media        id kind mime filename caption? part parts final size data? url?        3 MiB raw a chunk, 8 MiB a file
//	             reply_to? seq?
//	prompt       id kind text options[{id label style}] command? description? session   300 s by default
//	             timeout_seconds seq?
//	prompt_done  id option_id? expired? seq?
//	avatar       state                                                                  idle, thinking, speaking
//	typing       stop?
//	pong         ts?                                                                    as it came
//	error        code message fatal id? retry_after_ms?                                 one sentence for a person
//	delivered    id device                                                              answer to deliver
//	accepted     id                                                                     only with resume
//
// # Where things are
//
// limits.go has every number, codes.go the error codes, in.go what a decoded frame is and how long it is valid, decode.go
// and deliver.go the rules for each frame, faults.go the sentences, frames.go the frames to the device. JSON is parsed by sonic
// (parse_sonic.go); with the build tag stdjson, and where sonic has no compiler, by encoding/json (parse_std.go).
package codec
