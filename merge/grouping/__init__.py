"""Groups: tasks cut into jobs by the tags that they need, the images that offer them, and what things cost.

A `GroupingProblem` says which tasks there are, what they take from each other, which images there may be hosts of, and
which groups are there already. Each of the `GROUPING_STRATEGIES` answers with a `Grouping`, or raises `Ungroupable`
with the task and the tags to blame. `cost_of` and `problems_of` say of any groups what they cost and what is wrong.
Nothing here knows jobs, hosts or running tasks.
"""

from merge.grouping.evaluation import cost_of, problems_of
from merge.grouping.problem import (
    Effort,
    Expense,
    Group,
    GroupedStream,
    GroupedTask,
    GroupId,
    Grouping,
    GroupingCosts,
    GroupingNotFound,
    GroupingProblem,
    Image,
    NoGrouping,
    PresentGroup,
    TaskId,
    Ungroupable,
)
from merge.grouping.strategies import GROUPING_STRATEGIES
