// Package credentials is what a member proves itself with to the other members: the secret, and a certificate.
//
// Neighbours: node loads them at its start and when it is told to, and transport asks for them at every connection.
//
// Invariants:
//
//	CR1  What is in the files counts from the next connection on, without a restart.
//	CR2  Files that cannot be used leave what was there before, and say so in the log, not at every connection.
//	CR3  A start needs files that can be read; a certificate that others will not take can be replaced later.
//
// What it does not do: judge what others prove themselves with (transport).
package credentials
