"""What holds under every policy: quotas and limits of tenants, jobs that cannot resume, no stopping too soon, jobs
that run on certain nodes only.

Each guard asks the policy, looks at its answer, and asks again about the part that must be otherwise.
"""
