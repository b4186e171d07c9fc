package codec

// Code is an error code of the protocol; the word on the wire is the Go error.
type Code string

// The codes of spec 2. Whether one is fatal depends on when it comes: every error before ready is.
const (
	BadFrame         Code = "bad_frame"         // no frame, or a field is missing or wrong
	AuthFailed       Code = "auth_failed"       // no valid token, or the device is not on the list
	Forbidden        Code = "forbidden"         // not for this device or this connection
	UnsupportedFrame Code = "unsupported_frame" // format of audio, kind of media
	TooBig           Code = "too_big"           // over a limit of spec 3
	DeviceOffline    Code = "device_offline"    // the target of a delivery is not connected
	InternalError    Code = "internal_error"    // a turn failed
	RateLimited      Code = "rate_limited"      // over a quota; come again after retry_after_ms
	AuthRequired     Code = "auth_required"     // declared and never sent: BadFrame takes its place
)

func (c Code) Error() string { return string(c) }

// Fault is what is wrong with one frame. Faults are shared: read them, never change them. A *Fault that is nil must not
// be stored in an error.
type Fault struct {
	Code    Code
	Message string // one plain sentence: what was wrong and what is allowed; never a word of the input
}

func (f *Fault) Error() string { return string(f.Code) + ": " + f.Message }

// Unwrap makes errors.Is(f, BadFrame) work.
func (f *Fault) Unwrap() error { return f.Code }
