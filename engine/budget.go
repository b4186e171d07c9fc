package engine

// The budgets of the process for what connections have half received; see Config.MaxInbound and MaxStrangers.

// charge counts what a connection has half received: of strangers in a small budget of their own, else beside the messages
// over 64 KiB, which are counted already. It answers false when all of them together hold too much.
func (c *conn) charge() bool {
	in, size := c.in, 0
	if in.message != nil {
		size = cap(in.message.B)
	}
	if in.held != nil {
		size += cap(in.held.B)
	}
	budget, limit, beside := &c.srv.strangers, c.srv.cfg.MaxStrangers, int64(0)
	if c.phase.Load() == admitted {
		if size > maxPooled {
			size = 0
		}
		budget, limit, beside = &c.srv.halves, c.srv.cfg.MaxInbound, large.Load()
	}
	if in.budget != budget {
		c.discharge()
	}
	more := int64(size - in.charged)
	if more == 0 {
		return true
	}
	in.budget, in.charged = budget, size
	sum := budget.Add(more) + beside
	if more < 0 || sum <= limit {
		return true
	}
	// Those first who hold much: an honest message that comes in two reads holds little.
	return c.phase.Load() == admitted && size <= fairHalf && sum <= 2*limit
}

func (c *conn) discharge() {
	if in := c.in; in.budget != nil {
		in.budget.Add(-int64(in.charged))
		in.budget, in.charged = nil, 0
	}
}

// due is how much a message must gain within StallTimeout: 16 KiB, but where memory is short a large message must be on its
// way, or some that trickle would keep all others out.
func (c *conn) due() int {
	if m := c.in.message; m != nil && large.Load()+c.srv.halves.Load() > c.srv.cfg.MaxInbound/2 {
		return max(minGain, len(m.B)/8)
	}
	return minGain
}
