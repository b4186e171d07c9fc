package session

import (
	"mobilegate/codec"
	"mobilegate/engine"
)

// Close codes (spec 1).
const (
	closeGoingAway = 1001
	closeBadUTF8   = 1007
	closeRefused   = 1008
	closeTryLater  = 1013
	closeReplaced  = 4001
)

// farewells are the last words for every reason, compiled once: a refusal builds no JSON.
type farewells struct {
	refused [unknownDevice + 1]*engine.Farewell

	online, notHello, replaced, overloaded, goingAway            *engine.Farewell
	late, tooBig, helloTooBig, badUTF8, slowSender, slowConsumer *engine.Farewell
}

func newFarewells() farewells {
	var f farewells
	f.refused[badToken] = farewell(codec.AuthFailed, "The token is missing or not a valid one.")
	f.refused[boundToken] = farewell(codec.Forbidden, "This token belongs to another device.")
	f.refused[boundDevice] = farewell(codec.Forbidden, "This device has a token of its own.")
	f.refused[unknownDevice] = farewell(codec.AuthFailed, "This device is not on the list of devices that may connect.")
	f.online = farewell(codec.Forbidden, "This device is online with another token.")
	f.notHello = farewell(codec.BadFrame, "The first frame must be hello.")
	f.late = farewell(codec.BadFrame, "No hello came within 15 seconds.")
	f.tooBig = farewell(codec.TooBig, "A message may have at most 16777216 bytes.")
	f.helloTooBig = farewell(codec.TooBig, "The first message may have at most 65536 bytes.")
	f.badUTF8 = fatal(codec.BadFrame, "A text message must be UTF-8.", closeBadUTF8)
	f.replaced = engine.NewFarewell(nil, closeReplaced, "replaced")
	f.goingAway = engine.NewFarewell(nil, closeGoingAway, "going away")
	f.overloaded = engine.NewFarewell(nil, closeTryLater, "overloaded")
	f.slowSender = engine.NewFarewell(nil, closeTryLater, "slow_sender")
	f.slowConsumer = engine.NewFarewell(nil, closeTryLater, "slow_consumer")
	return f
}

// farewell is the end after a fatal error of the protocol: the error frame, then close 1008 with the code as its reason.
func farewell(code codec.Code, message string) *engine.Farewell {
	return fatal(code, message, closeRefused)
}

func fatal(code codec.Code, message string, closeCode uint16) *engine.Farewell {
	frame := codec.AppendError(nil, &codec.ErrorFrame{Code: code, Message: message, Fatal: true})
	return engine.NewFarewell(frame, closeCode, string(code))
}

// Farewell implements engine.Handler.
func (h *Hub) Farewell(err error, admitted bool) *engine.Farewell {
	f := &h.farewells
	switch err {
	case engine.ErrTooBig:
		if admitted {
			return f.tooBig
		}
		return f.helloTooBig
	case engine.ErrNotUTF8:
		return f.badUTF8
	case engine.ErrNoHello:
		return f.late
	case engine.ErrSlowSender:
		return f.slowSender
	case engine.ErrSlowConsumer:
		return f.slowConsumer
	case engine.ErrGoingAway:
		return f.goingAway
	}
	return f.overloaded
}
