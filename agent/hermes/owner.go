package hermes

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"strings"

	"mobilegate/agent"
)

// What an owner is called at Hermes. Two owners never share a name, whatever their devices call themselves.

const (
	keyPrefix    = "agent:main:mobile:dm:"
	maxKey       = 256            // characters that Hermes takes
	defaultEntry = "MOBILE_TOKEN" // its owners go without the entry in their key
)

// sessionKey names the owner's conversation in X-Hermes-Session-Key. No colon comes out of escape, so that device and entry
// stay apart; a hash stands behind a second colon, where a device would be that has no name.
func sessionKey(o agent.Owner) string {
	key := keyPrefix + escape(o.Device)
	if o.Entry != defaultEntry {
		key += ":" + escape(o.Entry)
	}
	if len(key) > maxKey || o.Device == "" {
		key = keyPrefix + ":" + ownerHash(o)
	}
	return key
}

// sessionID is the owner's session at Hermes. It is sent beside the key, so that messages with and without an image go into
// one conversation, whichever routes they take.
func sessionID(o agent.Owner) string { return "mobile-" + ownerHash(o)[:32] }

// folder is where the spool keeps the owner's files.
func folder(o agent.Owner) string { return ownerHash(o)[:32] }

func ownerHash(o agent.Owner) string { return digest(nil, o.Device, o.Entry) }

// idempotencyKey is the same whenever the same attempt at the same turn is sent, also by another run of the gateway.
func idempotencyKey(t *agent.Turn, attempt int) string {
	return digest(nil, t.Device, t.Entry, "mobile:"+t.Device, t.ID, strconv.Itoa(attempt))
}

// digest is the SHA-256 of parts, each with its length; with a secret nobody else can compute it.
func digest(secret []byte, parts ...string) string {
	h := hmac.New(sha256.New, secret)
	if secret == nil {
		h = sha256.New()
	}
	for _, p := range parts {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(p)))
		h.Write(length[:])
		h.Write([]byte(p))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// escape writes everything but printable ASCII as %XX, and blanks, colons and percent signs too.
func escape(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		if c <= ' ' || c > '~' || c == ':' || c == '%' {
			b.WriteByte('%')
			b.WriteString(strings.ToUpper(hex.EncodeToString([]byte{c})))
			continue
		}
		b.WriteByte(c)
	}
	return b.String()
}
