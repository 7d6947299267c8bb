// Package peers is what the replica of one database knows of those at the other members, by what they tell each other
// again and again: how far each is, who leads, where one is halted.
//
// Neighbours: node gives it what comes in and asks it; package replica decides what is made of it, with the time as an
// argument, and package lead who should lead. Which of the others can be heard at all is known of the node, not of a
// database (Words).
//
// Start reading at Peers and its Hear and Tell.
//
//	PE1  What is heard lasts until the next word, but nobody is alive of whom nothing has come for SilentAfter.
//	PE2  A word that is lost is followed by another within an Interval, so none is sent again.
//	PE3  What no member decides by, but people read, is in Details.
package peers
