//go:build race || ownercheck

package session

const instrumented = true // allocates more than the code does
