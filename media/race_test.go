//go:build race || ownercheck

package media

const watched = true
