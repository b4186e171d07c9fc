package openai

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"syscall"

	"mobilegate/agent"
	"mobilegate/internal/picture"
	"mobilegate/internal/upstream"
)

// What may go wrong beside a Status. All errors are in words of our own: those of the library hold what the service wrote.
var (
	errSilent   = errors.New("the service did not answer in time")
	errCut      = errors.New("the answer broke off")
	errLimit    = errors.New("the turn took too long")
	errLong     = errors.New("the answer is too long")
	errEmpty    = errors.New("the answer is empty")
	errAnswer   = errors.New("the service sent an error for an answer")
	errConnect  = errors.New("the connection failed")
	errName     = errors.New("the name of the service does not resolve")
	errIdentity = errors.New("the service could not prove its identity")
	errFile     = errors.New("the content of the file cannot be read")
)

// reason says why a call failed, which ran under ctx.
func reason(ctx context.Context, err error) error {
	var (
		status *upstream.Status
		number syscall.Errno
		name   *net.DNSError
		proof  *tls.CertificateVerificationError
	)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &status):
		return status
	case errors.As(err, &name):
		return errName
	case errors.As(err, &proof):
		return errIdentity
	case errors.As(err, &number):
		return number
	}
	return errConnect
}

// once keeps a call from being made again that took all the time there was, or all the room.
func once(err error) error {
	if errors.Is(err, errSilent) || errors.Is(err, errLong) {
		return upstream.Final(err)
	}
	return err
}

// failure says to the user what went wrong with a turn, which held f or nothing.
func failure(err error, f *agent.File) *agent.Failure {
	tell := "The model cannot be reached right now. Please try again in a few minutes."
	var status *upstream.Status
	switch {
	case errors.As(err, &status):
		tell = told(status.Code, f)
	case errors.Is(err, errSilent):
		tell = "The model did not answer in time. Please try again."
	case errors.Is(err, errCut):
		tell = "The answer broke off. Please ask again."
	case errors.Is(err, errLimit):
		tell = "The answer took too long and was ended."
	case errors.Is(err, errLong):
		tell = "The answer became too long and was ended."
	case errors.Is(err, errEmpty):
		tell = "The model gave no answer. Please ask in other words."
	case errors.Is(err, errAnswer):
		tell = "The model's service has failed. Please try again."
	case errors.Is(err, errFile):
		tell = "The file could not be read. Please send it again."
	case errors.Is(err, picture.ErrFormat), errors.Is(err, picture.ErrNoFit):
		tell = "The picture could not be read. Please send it as JPEG or PNG."
	case errors.Is(err, picture.ErrTooBig):
		tell = "The picture has too many pixels. Please send a smaller one."
	}
	return &agent.Failure{Tell: tell, Err: err}
}

// told is what the user hears of a status.
func told(code int, f *agent.File) string {
	switch {
	case code == http.StatusTooManyRequests:
		return "The model has too much to do right now. Please try again in a minute."
	case code == http.StatusUnauthorized, code == http.StatusForbidden, code == http.StatusPaymentRequired:
		return "The model's service does not accept this gateway's key. Please tell whoever runs it."
	case code/100 == 3:
		return "The model's service is not where this gateway looks for it. Please tell whoever runs this gateway."
	case code == http.StatusNotFound:
		return "The model's service does not know the model. Please tell whoever runs this gateway."
	case code >= http.StatusInternalServerError, code == http.StatusRequestTimeout:
		return "The model's service has failed. Please try again in a few minutes."
	case f != nil && f.Kind == "image":
		return "The model refused this message: perhaps it cannot look at pictures."
	case f != nil && f.Kind == "audio":
		return "The recording could not be made into text."
	}
	return "The model refused this message. If the conversation has become too long for it, /new starts over."
}
