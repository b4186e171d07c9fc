package session

import (
	"strings"
	"time"

	"mobilegate/agent"
	"mobilegate/codec"
	"mobilegate/engine"
	"mobilegate/media"
)

// maxDeliveries is how many deliveries may wait for one device that takes nothing.
const maxDeliveries = 64

// delivery is what one connection brings for another device (spec 9).
type delivery struct {
	id     string // of the frame
	key    messageKey
	target string // device id
	text   string
	file   *media.File // the delivery's; nil for none
	sends  *agent.File // file, as it goes out

	// Who waits for the outcome.
	from *Session
	conn engine.Conn
}

// deliver checks a delivery and gives it to the target's session.
func (s *Session) deliver(in *codec.In, now time.Time) {
	if !s.mayDeliver && (s.hub.cfg.RemoteOnly || !s.conn.Local()) {
		s.fault(errNoDeliver, in.ID, now)
		return
	}
	if fault := in.CheckDeliver(s.hub.cfg.HomeDevice); fault != nil {
		s.fault(fault, in.ID, now)
		return
	}
	d := &delivery{id: strings.Clone(in.ID), key: keyOf(in.ID), target: strings.Clone(in.Target), text: strings.Clone(in.Text), from: s, conn: s.conn}
	if in.HasAttachment {
		file, err := media.Decode(in.Attachment.Data, codec.MaxMediaBytes, s.hub.budget)
		if err != nil {
			s.mediaFault(err, in.ID, now)
			return
		}
		mime := in.Attachment.Mime
		if mime == "" {
			var head [512]byte
			n, _ := file.ReadAt(head[:], 0)
			mime = media.GuessMime(in.Attachment.Filename, head[:n])
		}
		d.file, d.sends = file, incoming(file, in.Attachment.Kind, mime, in.Attachment.Filename)
	}
	e := newEvent(evDeliver)
	e.delivery = d
	if !s.hub.postTo(d.target, e) {
		e.free()
		d.free()
		s.outcome(d, errOffline, now)
	}
}

var (
	errNoDeliver = &codec.Fault{Code: codec.Forbidden, Message: "This connection may not deliver to other devices."}
	errOffline   = &codec.Fault{Code: codec.DeviceOffline, Message: "The target device is not connected; try again later."}
	errQueueFull = &codec.Fault{Code: codec.RateLimited, Message: "Too many deliveries wait for the target device; try again later."}
)

// take is the target's side: the frames of the delivery are to be told to its device.
func (s *Session) take(d *delivery, now time.Time) {
	if s.conn == nil {
		d.report(errOffline)
		return
	}
	r, second := s.remember(now), s.hub.second(now)
	if r.deliveries == nil {
		r.deliveries = new(dedup)
	}
	w := s.toDo()
	waiting := 0
	for i := range w.said {
		if other := w.said[i].delivery; other != nil {
			if waiting++; other.key == d.key {
				waiting = 2 * maxDeliveries // it is not known yet what becomes of it
			}
		}
	}
	if waiting >= 2*maxDeliveries {
		d.report(errQueueFull)
		return
	}
	if r.deliveries.expire(second); r.deliveries.has(d.key) {
		d.report(nil)
		return
	}
	r.deliveries.add(d.key, second)
	if d.text != "" {
		w.said = append(w.said, said{Event: agent.Event{Text: d.text}, delivery: d, end: d.file == nil})
	}
	if d.file != nil {
		w.said = append(w.said, said{Event: agent.Event{Kind: agent.SendFile, File: d.sends}, delivery: d, end: true})
	}
	s.resume(now)
}

// delivered: the frames went to the device, or there is none any more.
func (s *Session) delivered(d *delivery) {
	if s.conn != nil {
		d.report(nil)
		return
	}
	if s.recent != nil && s.recent.deliveries != nil {
		s.recent.deliveries.remove(d.key)
	}
	d.report(errOffline)
}

// report ends the delivery and tells who sent it.
func (d *delivery) report(fault *codec.Fault) {
	d.free()
	e := newEvent(evDelivered)
	e.conn, e.delivery, e.fault = d.conn, d, fault
	d.from.post(e, elsewhere)
}

func (d *delivery) free() {
	if d.file != nil {
		d.file.Release()
		d.file = nil
	}
}

// outcome tells the sender what became of its delivery.
func (s *Session) outcome(d *delivery, fault *codec.Fault, now time.Time) {
	switch {
	case fault == errQueueFull:
		s.sendError(&codec.ErrorFrame{Code: fault.Code, Message: fault.Message, ID: d.id, RetryAfter: 2 * time.Second})
	case fault != nil:
		s.sendError(&codec.ErrorFrame{Code: fault.Code, Message: fault.Message, ID: d.id})
	default:
		if start, ok := s.begin(); ok {
			s.out.B = codec.AppendDelivered(s.out.B, d.id, d.target)
			s.end(start)
		}
	}
}
