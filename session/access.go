package session

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
)

// Token is one entry of the configuration that lets devices in.
type Token struct {
	Secret  string
	Name    string // of the entry, for what is kept of its devices beyond a restart; no secret
	Device  string // the only device that may use it; "": any device
	Deliver bool   // may also deliver to other devices (spec 9); never bound
}

// Access is who may connect.
type Access struct {
	Tokens  []Token
	Devices []string // if not empty, the only devices that are let in
}

// owner is the token entry that a device is held with: what is kept of the device belongs to both together (spec 4).
type owner int32

// access is Access in the form in which it is asked.
type access struct {
	salt    [32]byte
	tokens  map[[32]byte]*grant
	bound   map[string]bool // devices that have a token of their own
	devices map[string]bool // nil: all
}

// grant is what a token allows.
type grant struct {
	owner   owner
	device  string
	deliver bool
}

// The faults of an Access. They name no token.
var (
	ErrNoToken    = errors.New("no token is configured")
	ErrEmptyToken = errors.New("an item has no token")
	ErrTokenTwice = errors.New("one token is bound twice, or both bound and unbound")
)

func newAccess(a Access) (*access, error) {
	if len(a.Tokens) == 0 {
		return nil, ErrNoToken
	}
	x := &access{tokens: map[[32]byte]*grant{}, bound: map[string]bool{}}
	rand.Read(x.salt[:])
	for i, t := range a.Tokens {
		if t.Secret == "" {
			return nil, ErrEmptyToken
		}
		key := x.key(t.Secret)
		old := x.tokens[key]
		switch {
		case old == nil:
			x.tokens[key] = &grant{owner: owner(i), device: t.Device, deliver: t.Deliver}
		case old.device != "" || t.Device != "":
			return nil, ErrTokenTwice
		default:
			old.deliver = old.deliver || t.Deliver
		}
		if t.Device != "" {
			x.bound[t.Device] = true
		}
	}
	if len(a.Devices) > 0 {
		x.devices = map[string]bool{}
		for _, d := range a.Devices {
			x.devices[d] = true
		}
	}
	return x, nil
}

// key is what tokens are found by. The salt is secret, so how long a look-up takes tells nothing about a token, and the
// time does not grow with the number of tokens.
func (x *access) key(secret string) [32]byte {
	h := sha256.New()
	h.Write(x.salt[:])
	h.Write([]byte(secret))
	var sum [32]byte
	h.Sum(sum[:0])
	return sum
}

// refusal is why a hello is refused; admit's answers.
type refusal uint8

const (
	welcome       refusal = iota
	badToken              // auth_failed
	boundToken            // forbidden: the token is another device's
	boundDevice           // forbidden: the device has a token of its own
	unknownDevice         // auth_failed: not on the list
)

// admit applies the checks 1 to 4 of spec 4 in their order. generated tells that the id is of our own making.
func (x *access) admit(secret, device string, generated bool) (*grant, refusal) {
	g := x.tokens[x.key(secret)]
	switch {
	case secret == "" || g == nil:
		return nil, badToken
	case g.device != "" && g.device != device:
		return nil, boundToken
	case x.bound[device] && g.device != device:
		return nil, boundDevice
	case x.devices != nil && !x.devices[device] && !(generated && g.deliver):
		return nil, unknownDevice
	}
	return g, welcome
}
