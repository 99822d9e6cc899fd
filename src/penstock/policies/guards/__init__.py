"""What holds under every policy: quotas and limits of tenants, jobs that cannot resume, no stopping too soon.

Each guard asks the policy, looks at its answer, and asks again about the part that must be otherwise.
"""
