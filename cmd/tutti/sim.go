package main

import "github.com/spf13/cobra"

func simCommand() *cobra.Command { return &cobra.Command{Use: "sim"} }
