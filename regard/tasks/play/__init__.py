"""Acting in environments that are new to the agent."""
